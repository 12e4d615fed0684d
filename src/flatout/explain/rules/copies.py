"""FO203, FO205: the host waits while a batch is copied to the GPU, which could be copied while the GPU computes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from flatout.explain.subject import Subject
from flatout.findings import Finding, Remedy
from flatout.recording.tape import Event, Transfer

SIDE_STREAM = 1_000_000
"""A stream that no script has: for copies that are made ahead of their use."""

_REMEDY = Remedy(
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
        saving = subject.saving(subject.with_events(_ahead(subject, where)))
        if saving is None:
            continue
        pinned = all(copy.pinned for copy in copies)
        kind = "a copy that the host waits for" if pinned else "a copy from pageable memory"
        size_bytes = sum(copy.size_bytes for copy in copies) / subject.tape.steps
        yield subject.finding(
            "FO205" if pinned else "FO203",
            "blocking-copy-from-pinned" if pinned else "copy-from-pageable-memory",
            f"{kind} moves {size_bytes / 1e6:.3g} MB to the GPU in each step, while the GPU has nothing to do",
            saving,
            _REMEDY,
            subject.place(where),
            {"bytes_per_step": size_bytes, "copies_per_step": len(copies) / subject.tape.steps},
        )


def _holds_up(event: Event) -> bool:
    return isinstance(event, Transfer) and event.direction == "to_gpu" and (event.blocking or not event.pinned)


def _ahead(subject: Subject, where: int | None) -> Iterator[Event]:
    for event in subject.tape.events:
        if _holds_up(event) and isinstance(event, Transfer) and event.place == where:
            yield msgspec.structs.replace(event, pinned=True, blocking=False, stream=SIDE_STREAM)
        else:
            yield event
