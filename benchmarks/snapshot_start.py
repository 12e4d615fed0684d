"""Works out what a CUDA memory snapshot's allocator looked like before the first event of its trace.

A snapshot holds the *last* state and the events before it; the oldest may be lost, as the trace is a ring. The first
state follows by undoing them:

- segments: those of the last state, without those that the trace allocates, with those that it frees;
- live blocks: those that the trace frees without having allocated them, and those of the last state that it never
  allocates. The latter's sizes are in the file. Of the former it has only the requested size.

A block of the large pool can be larger than its request: a rest of up to 1 MiB is not split off. `RestFinder` tells how
large it was for blocks that were live at the start. Where less than 1 MiB is left before the next live block it is all
of that, as the large pool has no free block that small.
"""

from __future__ import annotations

from dataclasses import replace

from snapshot_layout import RecordedLayout, StartBlock, StartSegment, follow

from flatout.importers.cuda_snapshot import CudaSnapshot, SnapshotSegment, TraceEvent
from flatout.virtual.allocator.sizes import MIN_BLOCK_BYTES, SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES, round_size

UNBOUNDED_BYTES = 1 << 62


def start_segments(segments: list[SnapshotSegment], trace: list[TraceEvent]) -> dict[int, StartSegment]:
    """The segments before the first event, without blocks, by address."""
    known = {
        segment.address: StartSegment(
            segment.address,
            segment.total_size,
            segment.stream,
            segment.segment_type == "small",
            segment.segment_pool_id,
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


class RestFinder:
    """Walks the trace at recorded addresses and finds the unsplit rests of start blocks, in bytes by block address.

    A rest of `r` shortens the free space behind its block from `gap` to `gap - r`. Two things betray it. An allocation
    right behind the block begins where the rest ends. And an allocation somewhere else, in a free block of `taken`
    bytes, says that this space was no better fit: not between the allocation's size and `taken`.
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


def reconstruct(snapshot: CudaSnapshot, device: int, divisions: tuple[int, ...]) -> list[StartSegment]:
    """The segments before the first event with their live blocks, as exact as the snapshot allows."""
    segments = [segment for segment in snapshot.segments if segment.device == device]
    trace = snapshot.device_traces[device]
    first = start_segments(segments, trace)
    pool_ids = {segment.address: segment.segment_pool_id for segment in segments}
    blocks = start_blocks(segments, trace, divisions)
    for segment in first.values():
        segment.blocks = []
    layout = RecordedLayout(list(first.values()), [replace(block) for block in blocks], pool_ids)
    for block in blocks:
        holder = layout.segment_at(block.address)
        if holder is not None:
            holder.blocks.append(block)
    for segment in first.values():
        for block, limit in zip(segment.blocks, limits(segment), strict=False):
            gap_bytes = limit - block.address - block.size_bytes
            if segment.is_small or gap_bytes <= SMALL_REQUEST_BYTES:
                block.size_bytes += 0 if segment.is_small else gap_bytes
                block.is_exact = True
    layout = RecordedLayout(list(first.values()), [replace(block) for block in blocks], pool_ids)
    rests = RestFinder(layout, divisions).walk(trace)
    for block in blocks:
        block.size_bytes += rests.get(block.address, 0)
    return sorted(first.values(), key=lambda segment: segment.address)


def limits(segment: StartSegment) -> list[int]:
    """For each block of a segment, where the next one begins or the segment ends."""
    return [block.address for block in segment.blocks[1:]] + [segment.address + segment.size_bytes]
