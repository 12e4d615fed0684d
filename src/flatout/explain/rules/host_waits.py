"""FO101, FO103, FO104: the host waits for the GPU in every step, at a line.

A wait costs nothing where the GPU is the slower lane, and its removal nothing where the next wait takes its place. So
each line is tried alone, and then all of them together: lines that only save together are told together.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.tape import Event, Tape, Transfer, Wait

_READ = Remedy(text="keep the value on the GPU and read it rarely, or log it with loop.log", speedup="defer-logging")
_SYNCHRONIZE = Remedy(text="leave the synchronisation out of the step; it is for measuring")
_SHAPE = Remedy(text="use a form whose shape does not depend on values: torch.where, a mask, a fixed size")
_KINDS = {
    "FO101": ("host-waits-for-gpu", _READ),
    "FO103": ("synchronize-every-step", _SYNCHRONIZE),
    "FO104": ("shape-depends-on-values", _SHAPE),
}


def find(subject: Subject) -> Iterator[Finding]:
    """Waits by line, where a step without them is shorter."""
    lines: dict[tuple[str, int | None], int] = {}
    for event in subject.tape.events:
        key = _wait(event)
        if key is not None:
            lines[key] = lines.get(key, 0) + 1
    alone = {key: saving for key in lines if (saving := subject.saving(_without(subject, {key}))) is not None}
    for key, saving in alone.items():
        yield _finding(subject, [key], saving, lines[key])
    if not alone and len(lines) > 1:
        together = subject.saving(_without(subject, set(lines)))
        if together is not None:
            yield _finding(subject, list(lines), together, sum(lines.values()))


def _wait(event: Event) -> tuple[str, int | None] | None:
    """The rule's code and the line, for an event that makes the host wait for results."""
    if isinstance(event, Wait):
        if event.reason == "synchronize":
            return "FO103", event.place
        return "FO104" if "hangs on values" in event.reason else "FO101", event.place
    if isinstance(event, Transfer) and event.direction == "to_host" and (event.blocking or not event.pinned):
        return "FO101", event.place
    return None


def _without(subject: Subject, keys: set[tuple[str, int | None]]) -> Tape:
    return subject.with_events(_freed(subject, keys))


def _freed(subject: Subject, keys: set[tuple[str, int | None]]) -> Iterator[Event]:
    for event in subject.tape.events:
        if _wait(event) not in keys:
            yield event
        elif isinstance(event, Transfer):
            yield msgspec.structs.replace(event, pinned=True, blocking=False)


def _finding(subject: Subject, keys: list[tuple[str, int | None]], saving: Saving, count: int) -> Finding:
    code, where = keys[0]
    name, remedy = _KINDS[code]
    times = count / subject.tape.steps
    message = f"the host waits for the GPU here {_times(times)} a step"
    if len(keys) > 1:
        message = f"the host waits for the GPU at {len(keys)} lines, {_times(times)} a step: none alone costs, all do"
    places = [place for _, number in keys if (place := subject.place(number)) is not None]
    evidence: dict[str, object] = {
        "waits_per_step": times,
        "lines": [f"{place.file}:{place.line}" for place in places],
    }
    return subject.finding(code, name, message, saving, remedy, subject.place(where), evidence)


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:g} times"
