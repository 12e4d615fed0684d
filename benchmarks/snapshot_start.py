"""Works out what a CUDA memory snapshot's allocator looked like before the first event of its trace.

A snapshot holds the *last* state, and the events before it (the oldest may be lost: the trace is a ring). The first state
follows by undoing them:

- segments: those of the last state, without those that the trace allocates, with those that it frees;
- live blocks: those that the trace frees without having allocated them, and those of the last state that it never
  allocates. The latter's sizes are in the file. Of the former it has only the requested size.

A block of the large pool can be larger than its request: a rest of up to 1 MiB is not split off. What it was for a block
that was live at the start shows when something is allocated right behind it while it lives (allocations begin where the
block before them ends), and where less than 1 MiB is left before the next live block (the large pool has no free block
that small).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field, replace
from typing import Any

from flatout.importers.cuda_snapshot import CudaSnapshot, SnapshotSegment, TraceEvent
from flatout.virtual.allocator.sizes import MIN_BLOCK_BYTES, SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES, round_size

UNBOUNDED_BYTES = 1 << 62


@dataclass
class StartBlock:
    """A block that was live before the first event. `size_bytes` may grow while its true size is being found."""

    address: int
    size_bytes: int
    requested_bytes: int
    is_exact: bool
    is_pending: bool = False


@dataclass
class StartSegment:
    address: int
    size_bytes: int
    stream: int
    is_small: bool
    pool_id: tuple[int, int]
    blocks: list[StartBlock] = field(default_factory=list)

    def serves_as(self, other: StartSegment) -> bool:
        """Whether the allocator would look for the same requests in both."""
        return (self.stream, self.is_small, self.pool_id) == (other.stream, other.is_small, other.pool_id)

    def as_entry(self) -> dict[str, Any]:
        """In the shape of `torch.cuda.memory_snapshot`, gaps filled with free blocks."""
        entries: list[dict[str, Any]] = []
        at = self.address
        for block in self.blocks:
            if block.address > at:
                entries.append({"size": block.address - at, "state": "inactive"})
            entries.append(
                {"size": block.size_bytes, "requested_size": block.requested_bytes, "state": "active_allocated"}
            )
            at = block.address + block.size_bytes
        end = self.address + self.size_bytes
        if end > at:
            entries.append({"size": end - at, "state": "inactive"})
        return {
            "address": self.address,
            "total_size": self.size_bytes,
            "stream": self.stream,
            "segment_type": "small" if self.is_small else "large",
            "segment_pool_id": self.pool_id,
            "blocks": entries,
        }


def start_segments(segments: list[SnapshotSegment], trace: list[TraceEvent]) -> dict[int, StartSegment]:
    """The segments before the first event, without blocks, by address."""
    known = {
        segment.address: StartSegment(
            segment.address, segment.total_size, segment.stream, segment.segment_type == "small", segment.segment_pool_id
        )
        for segment in segments
    }
    for event in reversed(trace):
        if event.action == "segment_alloc":
            known.pop(event.addr, None)
        elif event.action == "segment_free":
            is_small = event.size == SMALL_SEGMENT_BYTES  # the large pool has no segment that small
            known[event.addr] = StartSegment(event.addr, event.size, event.stream, is_small, (0, 0))
    return known


def start_blocks(
    segments: list[SnapshotSegment], trace: list[TraceEvent], divisions: tuple[int, ...]
) -> list[StartBlock]:
    """The blocks that were live before the first event, by address."""
    blocks: list[StartBlock] = []
    live: set[int] = set()
    pending: set[int] = set()
    for event in trace:
        if event.action == "alloc":
            live.add(event.addr)
        elif event.action == "free_requested":
            if event.addr not in live:
                blocks.append(StartBlock(event.addr, round_size(event.size, divisions), event.size, False))
            live.discard(event.addr)
            pending.add(event.addr)
        elif event.action == "free_completed":
            if event.addr not in pending:
                blocks.append(StartBlock(event.addr, round_size(event.size, divisions), event.size, False, True))
            pending.discard(event.addr)
    for segment in segments:
        for address, block in segment.placed_blocks():
            if block.is_active and address not in live and address not in pending:
                requested = block.size if block.requested_size is None else block.requested_size
                blocks.append(StartBlock(address, block.size, requested, True, not block.is_allocated))
    return sorted(blocks, key=lambda block: block.address)


class RecordedLayout:
    """The live blocks at their recorded addresses, as far as trace and last state tell; sizes follow by the split rule.

    Nothing here decides *where* an allocation goes: that is the allocator model's part.
    """

    def __init__(self, segments: list[StartSegment], blocks: list[StartBlock]) -> None:
        self._segments = {segment.address: segment for segment in segments}
        self._segment_addresses = sorted(self._segments)
        self._addresses = [block.address for block in blocks]
        self._blocks = {block.address: block for block in blocks}
        self.allocated_bytes = sum(block.size_bytes for block in blocks if not block.is_pending)
        self.peak_allocated_bytes = self.allocated_bytes

    def segment_at(self, address: int) -> StartSegment | None:
        index = bisect_right(self._segment_addresses, address) - 1
        if index < 0:
            return None
        segment = self._segments[self._segment_addresses[index]]
        return segment if address < segment.address + segment.size_bytes else None

    def add_segment(self, segment: StartSegment) -> None:
        insort(self._segment_addresses, segment.address)
        self._segments[segment.address] = segment

    def remove_segment(self, address: int) -> None:
        if self._segments.pop(address, None) is not None:
            self._segment_addresses.remove(address)

    def block_before(self, address: int) -> StartBlock | None:
        """The live block that comes last before an address in the same segment."""
        segment = self.segment_at(address)
        index = bisect_right(self._addresses, address - 1) - 1
        if segment is None or index < 0 or self._addresses[index] < segment.address:
            return None
        return self._blocks[self._addresses[index]]

    def limit_after(self, address: int) -> int:
        """Where the next live block, or else the segment, begins or ends after an address."""
        segment = self.segment_at(address)
        end = address if segment is None else segment.address + segment.size_bytes
        index = bisect_right(self._addresses, address)
        return min(end, self._addresses[index]) if index < len(self._addresses) else end

    def allocate(self, address: int, requested_bytes: int, divisions: tuple[int, ...]) -> None:
        size_bytes = round_size(requested_bytes, divisions)
        segment = self.segment_at(address)
        rest_bytes = self.limit_after(address) - address - size_bytes
        smallest_rest = MIN_BLOCK_BYTES if segment is None or segment.is_small else SMALL_REQUEST_BYTES + 1
        if 0 < rest_bytes < smallest_rest:
            size_bytes += rest_bytes
        insort(self._addresses, address)
        self._blocks[address] = StartBlock(address, size_bytes, requested_bytes, True)
        self.allocated_bytes += size_bytes
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)

    def request_free(self, address: int) -> None:
        block = self._blocks.get(address)
        if block is not None and not block.is_pending:
            block.is_pending = True
            self.allocated_bytes -= block.size_bytes

    def complete_free(self, address: int) -> None:
        if self._blocks.pop(address, None) is not None:
            self._addresses.remove(address)

    def size_of(self, address: int) -> int:
        return self._blocks[address].size_bytes

    def blocks(self) -> list[StartBlock]:
        return list(self._blocks.values())


class RestFinder:
    """Walks the trace at recorded addresses and finds the unsplit rests of start blocks, in bytes by block address.

    A rest of `r` shortens the free space behind its block from `gap` to `gap - r`. Two things betray it. An allocation
    right behind the block begins where the rest ends. And an allocation somewhere else, in a free block of `taken` bytes,
    says that this space was no better fit: not between the allocation's size and `taken`.
    """

    def __init__(self, layout: RecordedLayout, divisions: tuple[int, ...]) -> None:
        self.layout = layout
        self.divisions = divisions
        self.rests: dict[int, int] = {}
        self.excluded: dict[int, list[tuple[int, int]]] = {
            block.address: [] for block in layout.blocks() if not block.is_exact
        }
        self.open = dict.fromkeys(self.excluded)

    def walk(self, trace: list[TraceEvent]) -> dict[int, int]:
        new_segment: int | None = None
        for event in trace:
            if event.action == "alloc":
                self._allocation(event, new_segment is not None and new_segment == event.addr)
                new_segment = None
                continue
            if event.action == "segment_alloc":
                new_segment = event.addr
            elif event.action == "free_completed":
                self.open.pop(event.addr, None)
            follow(self.layout, event)
        for address, excluded in self.excluded.items():
            if address not in self.rests:
                self.rests[address] = _smallest_outside(excluded)
        return self.rests

    def _allocation(self, event: TraceEvent, is_new_segment: bool) -> None:
        layout = self.layout
        before = layout.block_before(event.addr)
        if before is not None and before.address in self.open:
            rest_bytes = event.addr - before.address - before.size_bytes
            if 0 <= rest_bytes <= SMALL_REQUEST_BYTES:
                self.rests[before.address] = rest_bytes
                before.size_bytes += rest_bytes
                del self.open[before.address]
        size_bytes = round_size(event.size, self.divisions)
        if size_bytes > SMALL_REQUEST_BYTES:
            taken_bytes = UNBOUNDED_BYTES if is_new_segment else layout.limit_after(event.addr) - event.addr
            chosen = layout.segment_at(event.addr)
            for address in self.open:
                segment = layout.segment_at(address)
                if segment is None or chosen is None or not segment.serves_as(chosen):
                    continue
                end = address + layout.size_of(address)
                gap_bytes = layout.limit_after(address) - end
                if gap_bytes >= size_bytes:
                    # Of two equal fits the lower address is taken.
                    best_bytes = taken_bytes - (MIN_BLOCK_BYTES if end > event.addr else 0)
                    self.excluded[address].append((max(0, gap_bytes - best_bytes), gap_bytes - size_bytes))
        layout.allocate(event.addr, event.size, self.divisions)


def _smallest_outside(ranges: list[tuple[int, int]]) -> int:
    """The smallest rest in no range (both ends belong to it); 0 where none is, as then something else is amiss."""
    rest_bytes = 0
    for first, last in sorted(ranges):
        if first <= rest_bytes <= last:
            rest_bytes = last + MIN_BLOCK_BYTES
    return rest_bytes if rest_bytes <= SMALL_REQUEST_BYTES else 0


def follow(layout: RecordedLayout, event: TraceEvent) -> None:
    """Takes an event that is not an allocation into the layout."""
    if event.action == "free_requested":
        layout.request_free(event.addr)
    elif event.action == "free_completed":
        layout.complete_free(event.addr)
    elif event.action == "segment_alloc":
        is_small = event.size == SMALL_SEGMENT_BYTES
        layout.add_segment(StartSegment(event.addr, event.size, event.stream, is_small, (0, 0)))
    elif event.action == "segment_free":
        layout.remove_segment(event.addr)


def reconstruct(snapshot: CudaSnapshot, device: int, divisions: tuple[int, ...]) -> list[StartSegment]:
    """The segments before the first event with their live blocks, as exact as the snapshot allows."""
    segments = [segment for segment in snapshot.segments if segment.device == device]
    trace = snapshot.device_traces[device]
    first = start_segments(segments, trace)
    blocks = start_blocks(segments, trace, divisions)
    for segment in first.values():
        segment.blocks = []
    layout = RecordedLayout(list(first.values()), [replace(block) for block in blocks])
    for block in blocks:
        segment = layout.segment_at(block.address)
        if segment is not None:
            segment.blocks.append(block)
    for segment in first.values():
        for block, limit in zip(segment.blocks, limits(segment), strict=False):
            gap_bytes = limit - block.address - block.size_bytes
            if segment.is_small or gap_bytes <= SMALL_REQUEST_BYTES:
                block.size_bytes += 0 if segment.is_small else gap_bytes
                block.is_exact = True
    layout = RecordedLayout(list(first.values()), [replace(block) for block in blocks])
    rests = RestFinder(layout, divisions).walk(trace)
    for block in blocks:
        block.size_bytes += rests.get(block.address, 0)
    return sorted(first.values(), key=lambda segment: segment.address)


def limits(segment: StartSegment) -> list[int]:
    """For each block of a segment, where the next one begins or the segment ends."""
    return [block.address for block in segment.blocks[1:]] + [segment.address + segment.size_bytes]
