"""A timeline as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is Chrome's "Trace Event Format": complete events ("X") with microseconds, one thread a lane, and flow events
("s", "f") from what the host issues to what the GPU does.
"""

from __future__ import annotations

from typing import Any

from flatout.recording.tape import (
    Compiled,
    Enter,
    Event,
    Fetch,
    Launch,
    Replay,
    Tape,
    Transfer,
    Wait,
    Work,
    operations_of,
)
from flatout.timeline.compiled import compiled
from flatout.timeline.span import Span
from flatout.timeline.timeline import Timeline

_HOST, _GPU = 1, 2
_MICROSECONDS = 1e6


def trace_events(tape: Tape, timeline: Timeline) -> dict[str, Any]:
    """The last round of steps of `timeline`, which was played from `tape`, as an object for JSON."""
    tape = compiled(tape)
    spans = (*timeline.host, *timeline.gpu)
    origin = min((span.start for span in spans), default=0.0)
    streams = sorted({span.stream for span in timeline.gpu})
    events: list[dict[str, Any]] = [
        _named("process_name", _HOST, 0, "host (simulated)"),
        _named("process_name", _GPU, 0, "GPU (simulated)"),
        _named("thread_name", _HOST, 0, "issues work"),
        *(_named("thread_name", _GPU, stream, f"stream {stream}") for stream in streams),
    ]
    phases = _phases(tape)
    issued: dict[int, list[float]] = {}
    for span in timeline.host:
        what = tape.events[span.event]
        events.append(_complete(tape, span, what, origin, _HOST, 0, phases[span.event]))
        if span.bound == "launch" and _starts_one(what):
            issued.setdefault(span.event, []).append(span.start)
    for number, span in enumerate(timeline.gpu):
        what = tape.events[span.event]
        events.append(_complete(tape, span, what, origin, _GPU, span.stream, phases[span.event]))
        starts = issued.get(span.event)
        if starts:
            events.extend(_arrow(number, starts.pop(0) - origin, span.start - origin, span.stream))
    events.sort(key=lambda event: event.get("ts", -1.0))
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _starts_one(what: Event) -> bool:
    """Whether each turn of the event is issued once and is one stretch of the GPU's time, or none."""
    if isinstance(what, Compiled):
        return len(what.operations) == 1 and not what.begins
    return isinstance(what, (Launch, Transfer, Replay))


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(
    tape: Tape, span: Span, what: Event, origin: float, process: int, thread: int, phase: str
) -> dict[str, Any]:
    arguments: dict[str, Any] = {"phase": phase, "goes to": span.bound}
    place = _place(tape, what)
    if place is not None:
        arguments["line"] = f"{tape.places[place].file}:{tape.places[place].line}"
    if isinstance(what, Launch):
        operation = tape.operations[what.operation]
        arguments["shapes"] = [list(tensor.shape) for tensor in operation.inputs()]
        arguments["dtypes"] = [tensor.dtype for tensor in operation.inputs()]
    return {
        "ph": "X",
        "name": "waits for the GPU" if span.bound == "wait" else _name(tape, what),
        "cat": span.bound,
        "pid": process,
        "tid": thread,
        "ts": (span.start - origin) * _MICROSECONDS,
        "dur": (span.end - span.start) * _MICROSECONDS,
        "args": arguments,
    }


def _name(tape: Tape, what: Event) -> str:
    if isinstance(what, (Launch, Compiled)):
        return " + ".join(dict.fromkeys(tape.operations[number].name for number in operations_of(what)))
    if isinstance(what, Replay):
        return f"CUDA graph of {len(what.operations)} operations"
    if isinstance(what, Transfer):
        return f"copy {what.size_bytes:,} bytes {'to the GPU' if what.direction == 'to_gpu' else 'to the host'}"
    if isinstance(what, Wait):
        return what.reason
    if isinstance(what, Fetch):
        return "next batch"
    return "the script's own work" if isinstance(what, Work) else type(what).__name__


def _place(tape: Tape, what: Event) -> int | None:
    if isinstance(what, (Launch, Compiled, Replay)):
        return tape.lines[operations_of(what)[0]] if tape.lines else None
    return what.place if isinstance(what, (Transfer, Wait, Fetch, Work)) else None


def _phases(tape: Tape) -> list[str]:
    """The phase of each event of the tape."""
    phase, found = "forward", []
    for event in tape.events:
        if isinstance(event, Enter):
            phase = event.phase
        found.append(phase)
    return found


def _arrow(number: int, issued: float, begins: float, stream: int) -> list[dict[str, Any]]:
    common = {"cat": "issues", "name": "issues", "id": number}
    return [
        {"ph": "s", "pid": _HOST, "tid": 0, "ts": issued * _MICROSECONDS, **common},
        {"ph": "f", "bp": "e", "pid": _GPU, "tid": stream, "ts": begins * _MICROSECONDS, **common},
    ]
