"""Allocations and frees in order, as a CUDA memory snapshot recorded them and as the virtual GPU makes them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from flatout.importers.cuda_snapshot import CudaSnapshot, TraceEvent
from flatout.steps.places import is_users_own

_OPERATOR = "at::_ops::"


@dataclass
class Event:
    """One move. `source` is the index of the event that made the freed block, None where it is older than the window.

    `size_bytes` is what was asked for, before rounding. `op` and `place` are for people who read a difference.
    """

    kind: str
    size_bytes: int
    op: str
    place: str
    source: int | None = None


def recorded_events(snapshot: CudaSnapshot, device: int = 0) -> list[Event]:
    """The trace of one device, without segments: those are the allocator's business (see replay_snapshots.py)."""
    events: list[Event] = []
    live: dict[int, int] = {}
    for entry in snapshot.device_traces[device]:
        if entry.action == "alloc":
            live[entry.addr] = len(events)
            events.append(Event("alloc", entry.size, _operators(entry), _place(entry)))
        elif entry.action == "free_requested":
            events.append(Event("free", entry.size, "", "", live.pop(entry.addr, None)))
    return events


def _names(entry: TraceEvent) -> list[str]:
    return [str(frame.get("name", "")) for frame in entry.frames if isinstance(frame, dict)]


def _operators(entry: TraceEvent) -> str:
    found: list[str] = []
    for name in _names(entry):
        if name.startswith(_OPERATOR):
            short = name[len(_OPERATOR) :].partition("::")[0]
            if short not in found:
                found.append(short)
    return " < ".join(found[:3])


def _place(entry: TraceEvent) -> str:
    place = entry.place
    return "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


class VirtualTrace:
    """Notes what one simulated GPU's memory does, from its creation on."""

    def __init__(self, memory: Any) -> None:
        self.events: list[Event] = []
        self.ends: list[int] = []
        self._live: dict[int, int] = {}
        self._memory = memory
        self._place: Callable[..., None] = memory._place
        self._free: Callable[..., None] = memory._free
        memory._place, memory._free = self._placed, self._freed

    def end_window(self, *_: object) -> None:
        """Called where a snapshot would be taken: what comes after is not compared."""
        self.ends.append(len(self.events))

    def close(self) -> None:
        """Stop noting."""
        del self._memory._place, self._memory._free

    def _placed(self, allocation: Any, nbytes: int, category: Any) -> None:
        self._place(allocation, nbytes, category)
        self._live[id(allocation.block)] = len(self.events)
        self.events.append(Event("alloc", nbytes, _running_operator(), _running_line()))

    def _freed(self, block: Any, record: Any) -> None:
        source = self._live.pop(id(block))
        self.events.append(Event("free", self.events[source].size_bytes, "", "", source))
        self._free(block, record)

    def window(self, first: Event) -> list[Event]:
        """The events from the last allocation like `first` (same size, same operator) to the end of the window."""
        end = self.ends[-1] if self.ends else len(self.events)
        name = first.op.partition(" ")[0]
        start = max(
            index
            for index, event in enumerate(self.events[:end])
            if event.size_bytes == first.size_bytes and event.op.replace(".", "_").startswith(name)
        )
        inside = [
            Event(
                e.kind, e.size_bytes, e.op, e.place, None if e.source is None or e.source < start else e.source - start
            )
            for e in self.events[start:end]
        ]
        if not self.ends:  # nothing said where to stop: frees of what is older come after the last step
            while inside and inside[-1].kind == "free" and inside[-1].source is None:
                inside.pop()
        return inside


def _running_operator() -> str:
    frame: FrameType | None = sys._getframe(2)
    names: list[str] = []
    while frame is not None and len(names) < 3:
        if frame.f_code.co_name == "kernel" and "name" in frame.f_locals:
            name = str(frame.f_locals["name"]).partition("::")[2]
            if name not in names:
                names.append(name)
        frame = frame.f_back
    return " < ".join(names)


def _running_line() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename == __file__ or not is_users_own(frame.f_code)):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


Difference: TypeAlias = tuple[str, int, int, int, int]
"""What to do (as difflib says it) with which recorded events, from and to, and with which virtual ones."""


@dataclass
class Comparison:
    """How far two windows agree. The ratios are between 0 and 1.

    `events_in_order_ratio`: events in the longest run of matching blocks that difflib finds, of the longer window. An
    event matches one of the same kind and size; a free must also free the block of the matching allocation, told by how
    many allocations ago it was made. `sizes_ratio`: the multisets of sizes asked for, intersection over union.
    """

    recorded: int
    virtual: int
    events_in_order_ratio: float
    sizes_ratio: float
    only_recorded: dict[int, int]
    only_virtual: dict[int, int]


def tokens(events: list[Event]) -> list[tuple[str, int, int | None]]:
    """Events as what is compared: kind, size, and for a free the age of its block in allocations."""
    made: list[int] = []
    count = 0
    result: list[tuple[str, int, int | None]] = []
    for event in events:
        made.append(count)
        if event.kind == "alloc":
            count += 1
            result.append(("alloc", event.size_bytes, None))
        else:
            result.append(("free", event.size_bytes, None if event.source is None else count - made[event.source]))
    return result


def compare(recorded: list[Event], virtual: list[Event]) -> tuple[Comparison, list[Difference]]:
    """The figures, and difflib's opcodes where the two windows differ."""
    left, right = tokens(recorded), tokens(virtual)
    matcher = SequenceMatcher(None, left, right, autojunk=False) if left != right else None
    opcodes: list[Difference] = (
        [] if matcher is None else [code for code in matcher.get_opcodes() if code[0] != "equal"]
    )
    matching = len(left) if matcher is None else sum(block.size for block in matcher.get_matching_blocks())
    ours = Counter(event.size_bytes for event in virtual if event.kind == "alloc")
    theirs = Counter(event.size_bytes for event in recorded if event.kind == "alloc")
    return (
        Comparison(
            len(left),
            len(right),
            matching / max(len(left), len(right), 1),
            (ours & theirs).total() / max((ours | theirs).total(), 1),
            dict(theirs - ours),
            dict(ours - theirs),
        ),
        opcodes,
    )
