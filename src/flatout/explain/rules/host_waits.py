"""FO101, FO103, FO104: the host waits for the GPU in every step, at a line.

A wait costs nothing where the GPU is the slower lane, and its removal nothing where the next wait takes its place. So
all of them are taken out together first; then each line alone. Where all save more than the best line alone, the lines
that it takes are told together: copies that hold the host up are waits too, and often the ones that take its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy, Saving
from flatout.recording.tape import Event, Tape, Transfer, Wait

Key: TypeAlias = "tuple[str, int | None]"
"""What a wait is told under: the code of its rule, and the line."""

MOST_LINES = 12
"""Of more lines that only save together it is not tried which of them are needed."""

_READ = Remedy(text="keep the value on the GPU and read it rarely, or log it with loop.log", speedup="defer-logging")
_SYNCHRONIZE = Remedy(text="leave the synchronisation out of the step; it is for measuring")
_SHAPE = Remedy(text="use a form whose shape does not depend on values: torch.where, a mask, a fixed size")
_TOGETHER = Remedy(
    text="keep values on the GPU and read them rarely; copy batches from pinned memory with non_blocking=True",
    speedup="defer-logging",
)
_REMEDIES = {"FO101": _READ, "FO103": _SYNCHRONIZE, "FO104": _SHAPE}
_COPY = "copy"


def find(subject: Subject) -> Iterator[Finding]:
    """Waits by line, where a step without them is shorter."""
    counts: dict[Key, int] = {}
    for event in subject.tape.events:
        key = _held_up(event)
        if key is not None:
            counts[key] = counts.get(key, 0) + 1
    if not counts or subject.saved_seconds(_without(subject, counts)) < subject.worth_seconds:
        return
    best = 0.0
    for key in counts:
        alone = subject.saving(_without(subject, {key}))
        if alone is not None:
            best = max(best, alone.seconds_per_step or 0.0)
            if key[0] != _COPY:
                yield _alone(subject, key, alone, counts[key])
    needed = _needed(subject, list(counts))
    together = subject.saving(_without(subject, needed))
    if len(needed) < 2 or together is None or all(code == _COPY for code, _ in needed):
        return
    if (together.seconds_per_step or 0.0) - best >= subject.worth_seconds:
        yield _together(subject, needed, together, sum(counts[key] for key in needed), none_alone=not best)


def _held_up(event: Event) -> Key | None:
    """The key of an event that makes the host wait for what the GPU has still to do."""
    if isinstance(event, Wait):
        if event.reason == "synchronize":
            return "FO103", event.place
        return "FO104" if "hangs on values" in event.reason else "FO101", event.place
    if isinstance(event, Transfer) and (event.blocking or not event.pinned):
        return "FO101" if event.direction == "to_host" else _COPY, event.place
    return None


def _needed(subject: Subject, keys: list[Key]) -> list[Key]:
    """Those that all of them take to save what they save together."""
    if len(keys) > MOST_LINES:
        return keys
    saved = subject.saved_seconds(_without(subject, keys))
    for key in list(keys):
        fewer = [one for one in keys if one != key]
        if subject.saved_seconds(_without(subject, fewer)) > saved - subject.worth_seconds / 2:
            keys = fewer
    return keys


def _without(subject: Subject, keys: Collection[Key]) -> Tape:
    return subject.with_events(_freed(subject, keys))


def _freed(subject: Subject, keys: Collection[Key]) -> Iterator[Event]:
    for event in subject.tape.events:
        if _held_up(event) not in keys:
            yield event
        elif isinstance(event, Transfer):
            yield msgspec.structs.replace(event, pinned=True, blocking=False)


def _alone(subject: Subject, key: Key, saving: Saving, count: int) -> Finding:
    code, where = key
    times = count / subject.tape.steps
    message = f"the host waits for the GPU here {_times(times)} a step"
    return subject.finding(
        code, message, saving, _REMEDIES[code], subject.place(where), _evidence(subject, [key], times)
    )


def _together(subject: Subject, keys: list[Key], saving: Saving, count: int, *, none_alone: bool) -> Finding:
    times = count / subject.tape.steps
    lines = _evidence(subject, keys, times)
    message = f"the host waits for the GPU at {len(keys)} places, {_times(times)} a step: "
    message += "none alone costs, all do" if none_alone else "all of them cost more than any alone"
    where = next(place for code, place in keys if code != _COPY)
    return subject.finding("FO101", message, saving, _TOGETHER, subject.place(where), lines)


def _evidence(subject: Subject, keys: list[Key], times: float) -> dict[str, object]:
    places = [place for _, number in keys if (place := subject.place(number)) is not None]
    lines = list(dict.fromkeys(f"{place.file}:{place.line}" for place in places))
    return {"waits_per_step": times, "lines": lines}


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:g} times"
