"""Segments: memory taken from the device for a pool, and given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.configuration import AllocatorConfiguration
from flatout.virtual.allocator.device import DeviceMemory
from flatout.virtual.allocator.expandable import ExpandableSegments
from flatout.virtual.allocator.pools import BlockPool
from flatout.virtual.allocator.statistics import Statistics

Observer: TypeAlias = Callable[[str, int, int, int, int], None]
"""Called with action, address, size_bytes, requested_bytes, stream; actions as in `recording.schema.MemoryAction`."""


class Segments:
    """Takes segments from the device and returns them, under the process's memory limit.

    `limit_bytes` is the limit on reserved memory that a memory fraction sets, or None.
    """

    def __init__(self, device: DeviceMemory, statistics: Statistics, configuration: AllocatorConfiguration) -> None:
        self.device = device
        self.statistics = statistics
        self.configuration = configuration
        self.limit_bytes: int | None = None
        self.observer: Observer | None = None
        self.expandable = ExpandableSegments(device, configuration.large_segment_size_bytes, self._pages_changed)

    @property
    def reserved_bytes(self) -> int:
        return self.statistics.tallies["reserved_bytes"]["all"].current

    def allocate(self, pool: BlockPool, stream: int, block_bytes: int, segment_bytes: int) -> Block | None:
        """A free block of at least `block_bytes` in new memory, not in any free list; None where there is no room.

        A segment of `segment_bytes`, or pages at the end of an expandable segment.
        """
        if self.limit_bytes is not None and self.reserved_bytes + segment_bytes > self.limit_bytes:
            return None
        if self.configuration.expandable_segments:
            block = self.expandable.allocate(pool, stream, block_bytes)
            if block is not None and pool.owner is not None:
                pool.owner.segment_count += 1
            return block
        address = self.device.malloc(segment_bytes)
        if address is None:
            return None
        self.adopt(address, segment_bytes, stream, pool)
        return Block(address, segment_bytes, stream, pool)

    def adopt(self, address: int, size_bytes: int, stream: int, pool: BlockPool) -> None:
        """Counts a segment that the device gave elsewhere."""
        if pool.owner is not None:
            pool.owner.segment_count += 1
        if self._is_oversize(size_bytes):
            self.statistics.oversize_segments.add(1)
        self._changed("segment_alloc", address, size_bytes, stream, pool, segments=1)

    def release(self, block: Block) -> None:
        """Returns the segment of a free block that is the whole of it."""
        assert not block.is_split
        assert block.expandable is None
        pool = block.pool
        pool.remove(block)
        self.device.free(block.address, block.size_bytes)
        if pool.owner is not None:
            pool.owner.segment_count -= 1
        if self._is_oversize(block.size_bytes):
            self.statistics.oversize_segments.subtract(1)
        self._changed("segment_free", block.address, -block.size_bytes, block.stream, pool, segments=-1)

    def release_unused(self, pool: BlockPool) -> None:
        """Returns all of a pool that can be returned: whole segments, and whole free pages of expandable ones."""
        blocks = list(pool.cached_blocks())
        for block in blocks:
            if block.expandable is None and not block.is_split:
                self.release(block)
        for block in blocks:
            if block.expandable is not None:
                self.expandable.unmap(block)

    def release_oversize(self, pool: BlockPool, stream: int, block_bytes: int) -> bool:
        """Returns just enough unsplittable blocks for a request; False where they would not do or do not exist.

        The smallest one that is large enough, else several from the largest down.
        """
        limit = self.configuration.max_split_size_bytes
        free = pool.free.get(stream)
        if limit is None or free is None:
            return False
        wanted_bytes = max(block_bytes, limit)
        oversize = [block for block in free.blocks[free.first_at_least(limit) :] if block.expandable is None]
        fitting = next((block for block in oversize if block.size_bytes >= wanted_bytes), None)
        if fitting is not None:
            self.release(fitting)
            return True
        released_bytes = 0
        while oversize and released_bytes < wanted_bytes:
            block = oversize.pop()
            released_bytes += block.size_bytes
            self.release(block)
        return released_bytes >= wanted_bytes

    def collect_garbage(self, pool: BlockPool) -> None:
        """Returns unused segments that are older than average, while reserved memory is above the threshold.

        Age is the number of searches in the pool since the segment became free.
        """
        assert self.limit_bytes is not None
        threshold_bytes = int(self.configuration.garbage_collection_threshold * self.limit_bytes)
        target_bytes = self.reserved_bytes - threshold_bytes
        candidates = [block for block in pool.cached_blocks() if not block.is_split and block.expandable is None]
        while target_bytes > 0 and candidates:
            ages = {id(block): pool.searches - block.search_count for block in candidates}
            average = sum(ages.values()) / len(candidates)
            for block in candidates:
                if ages[id(block)] >= average:
                    target_bytes -= block.size_bytes
                    self.release(block)
            candidates = [block for block in candidates if ages[id(block)] < average]

    def _is_oversize(self, size_bytes: int) -> bool:
        limit = self.configuration.max_split_size_bytes
        return limit is not None and size_bytes >= limit

    def _pages_changed(self, block: Block, address: int, change_bytes: int) -> None:
        if change_bytes < 0 and block.pool.owner is not None:
            block.pool.owner.segment_count -= 1
        action = "segment_alloc" if change_bytes > 0 else "segment_free"
        self._changed(action, address, change_bytes, block.stream, block.pool, segments=0)

    def _changed(
        self, action: str, address: int, change_bytes: int, stream: int, pool: BlockPool, segments: int
    ) -> None:
        self.statistics.change_reserved(change_bytes, pool.is_small, segments)
        if change_bytes > 0:
            self.statistics.num_device_alloc += 1
        else:
            self.statistics.num_device_free += 1
        if self.observer is not None:
            self.observer(action, address, abs(change_bytes), abs(change_bytes), stream)
