"""FO107, FO203, FO205: the host waits while a batch is copied to the GPU, which could be copied while the GPU computes.

Two changes are replayed: the copy from pinned memory with `non_blocking=True`, where the host goes on but the stream
copies; and the same on a stream of its own, a batch ahead. The simpler one is proposed where it saves about as much.
A single number needs no copy at all: it can be filled in on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.tape import Event, Tape, Transfer

SIDE_STREAM = 1_000_000
"""A stream that no script has: for copies that are made ahead of their use."""

NUMBER_BYTES = 16
"""A copy of up to so many bytes, complex128, is of one number."""

_FILLED = Remedy(text="use the Python number itself, or torch.full((), value, device=...), which the GPU fills in")
_PINNED = Remedy(
    text="pin_memory=True in the loader, and .to(device, non_blocking=True)", speedup="pinned-copies", safe=True
)
_FLAG = Remedy(text=".to(device, non_blocking=True): the memory is pinned already", speedup="pinned-copies", safe=True)
_AHEAD = Remedy(
    text="pin_memory=True in the loader, .to(device, non_blocking=True), and copy a batch ahead on a side stream "
    "(flatout.Loop does)",
    speedup="copy-ahead",
    safe=True,
)


def find(subject: Subject) -> Iterator[Finding]:
    """Copies by line that hold the host up, where a step that makes them ahead is shorter."""
    lines: dict[int | None, list[Transfer]] = {}
    for event in subject.tape.events:
        if _holds_up(event):
            assert isinstance(event, Transfer)
            lines.setdefault(event.place, []).append(event)
    for where, copies in lines.items():
        if all(not copy.pinned and copy.size_bytes <= NUMBER_BYTES for copy in copies):
            yield from _numbers(subject, where, copies)
            continue
        saving = subject.saving(_changed(subject, where, _ahead))
        if saving is None:
            continue
        pinned = all(copy.pinned for copy in copies)
        remedy = _AHEAD
        simpler = subject.saving(_changed(subject, where, _not_waited_for))
        gained = (saving.seconds_per_step or 0.0) - ((simpler and simpler.seconds_per_step) or 0.0)
        if simpler is not None and gained < subject.worth_seconds:
            saving, remedy = simpler, _FLAG if pinned else _PINNED
        kind = "pinned" if pinned else "pageable"
        size_bytes = sum(copy.size_bytes for copy in copies) / subject.tape.steps
        yield subject.finding(
            "FO205" if pinned else "FO203",
            f"{size_bytes / 1e6:.3g} MB a step are copied to the GPU from {kind} memory, and the host waits for it",
            saving,
            remedy,
            subject.place(where),
            {"bytes_per_step": size_bytes, "copies_per_step": len(copies) / subject.tape.steps},
        )


def _numbers(subject: Subject, where: int | None, copies: list[Transfer]) -> Iterator[Finding]:
    saving = subject.saving(_changed(subject, where, _not_waited_for))  # what fills it in is issued as a copy is
    if saving is None:
        return
    times = len(copies) / subject.tape.steps
    how_often = "once" if times == 1 else f"{times:g} times"
    yield subject.finding(
        "FO107",
        f"a number is copied to the GPU {how_often} a step, and the host waits for it",
        saving,
        _FILLED,
        subject.place(where),
        {"bytes_per_step": sum(copy.size_bytes for copy in copies) / subject.tape.steps, "copies_per_step": times},
    )


def _holds_up(event: Event) -> bool:
    return isinstance(event, Transfer) and event.direction == "to_gpu" and (event.blocking or not event.pinned)


def _changed(subject: Subject, where: int | None, change: Callable[[Transfer], Transfer]) -> Tape:
    return subject.with_events(
        change(event) if isinstance(event, Transfer) and _holds_up(event) and event.place == where else event
        for event in subject.tape.events
    )


def _not_waited_for(copy: Transfer) -> Transfer:
    return msgspec.structs.replace(copy, pinned=True, blocking=False)


def _ahead(copy: Transfer) -> Transfer:
    return msgspec.structs.replace(copy, pinned=True, blocking=False, stream=SIDE_STREAM)
