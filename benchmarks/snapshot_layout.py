"""The live blocks of a recorded trace at their recorded addresses."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Any

from flatout.importers.cuda_snapshot import TraceEvent
from flatout.virtual.allocator.sizes import MIN_BLOCK_BYTES, SMALL_REQUEST_BYTES, SMALL_SEGMENT_BYTES, round_size


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


class RecordedLayout:
    """The live blocks at their recorded addresses, as far as trace and last state tell; sizes follow by the split rule.

    Nothing here decides *where* an allocation goes: that is the allocator model's part.
    """

    def __init__(
        self, segments: list[StartSegment], blocks: list[StartBlock], pool_ids: dict[int, tuple[int, int]]
    ) -> None:
        self._segments = {segment.address: segment for segment in segments}
        self._segment_addresses = sorted(self._segments)
        self._pool_ids = pool_ids
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

    def add_segment(self, event: TraceEvent) -> None:
        """A new segment. To which pool it went only the last state tells."""
        is_small = event.size == SMALL_SEGMENT_BYTES
        pool_id = self._pool_ids.get(event.addr, (0, 0))
        self._segments[event.addr] = StartSegment(event.addr, event.size, event.stream, is_small, pool_id)
        insort(self._segment_addresses, event.addr)

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


def follow(layout: RecordedLayout, event: TraceEvent) -> None:
    """Takes an event that is not an allocation into the layout."""
    if event.action == "free_requested":
        layout.request_free(event.addr)
    elif event.action == "free_completed":
        layout.complete_free(event.addr)
    elif event.action == "segment_alloc":
        layout.add_segment(event)
    elif event.action == "segment_free":
        layout.remove_segment(event.addr)
