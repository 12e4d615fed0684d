"""Expandable segments: one range of addresses for each stream and pool, given memory page by page.

Pages are 2 MiB in the small pool and as large as a large segment (20 MiB) in the large pool; the range is 1 1/8 times
the GPU's memory (`c10/cuda/CUDACachingAllocator.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.device import DeviceMemory
from flatout.virtual.allocator.merging import merge
from flatout.virtual.allocator.pools import BlockPool
from flatout.virtual.allocator.sizes import SMALL_SEGMENT_BYTES


class ExpandableSegment:
    """A range of addresses in pages of `page_bytes`."""

    __slots__ = ("address", "page_bytes", "size_bytes")

    def __init__(self, address: int, size_bytes: int, page_bytes: int) -> None:
        self.address = address
        self.page_bytes = page_bytes
        self.size_bytes = -(-size_bytes // page_bytes) * page_bytes

    def pages_around(self, address: int, size_bytes: int) -> tuple[int, int]:
        """The smallest run of pages that covers a range, as first and last address (exclusive)."""
        first = (address - self.address) // self.page_bytes
        last = -(-(address + size_bytes - self.address) // self.page_bytes)
        return self.address + first * self.page_bytes, self.address + last * self.page_bytes

    def pages_within(self, address: int, size_bytes: int) -> tuple[int, int]:
        """The largest run of pages that a range covers, as first and last address (exclusive)."""
        first = -(-(address - self.address) // self.page_bytes)
        last = (address + size_bytes - self.address) // self.page_bytes
        return self.address + first * self.page_bytes, self.address + last * self.page_bytes


class ExpandableSegments:
    """All expandable segments of a device. `changed(block, address, bytes)` hears of pages mapped (> 0) or unmapped."""

    def __init__(self, device: DeviceMemory, large_page_bytes: int, changed: Callable[[Block, int, int], None]) -> None:
        self._device = device
        self._large_page_bytes = large_page_bytes
        self._changed = changed

    def allocate(self, pool: BlockPool, stream: int, size_bytes: int) -> Block | None:
        """A mapped free block of at least `size_bytes`, not in any free list; None where the device has no memory.

        Pages that were mapped before memory ran out stay mapped, as they do in PyTorch.
        """
        block = self._find(pool, stream, size_bytes)
        if not block.mapped and not self._map(block, min(block.size_bytes, size_bytes)):
            return None
        while block.size_bytes < size_bytes:
            following = block.next
            assert following is not None
            if not self._map(following, min(size_bytes - block.size_bytes, following.size_bytes)):
                return None
            block = following
        pool.remove(block)
        return block

    def unmap(self, block: Block) -> None:
        """Returns the whole pages inside a free block. The rest stays free; a segment without memory goes."""
        segment, pool = block.expandable, block.pool
        assert segment is not None
        first, last = segment.pages_within(block.address, block.size_bytes)
        if first >= last:
            return
        pool.remove(block)
        if first > block.address:
            before = self._piece(block, block.address, first - block.address)
            before.splice(block.previous, block)
            pool.add(before)
        end = block.address + block.size_bytes
        if end > last:
            after = self._piece(block, last, end - last)
            after.splice(block, block.next)
            pool.add(after)
        block.address, block.size_bytes, block.mapped = first, last - first, False
        merge(block, block.previous)
        merge(block, block.next)
        pool.add_unmapped(block)
        self._device.uncommit(last - first)
        self._changed(block, first, first - last)
        if not block.is_split:
            pool.remove_unmapped(block)

    def _find(self, pool: BlockPool, stream: int, size_bytes: int) -> Block:
        """The lowest run of free and unmapped blocks with `size_bytes` of addresses, else a new segment."""
        for block in pool.unmapped.get(stream, ()):
            start = block.previous if _is_available(block.previous) else block
            room, reached = 0, start
            while room < size_bytes and reached is not None and _is_available(reached):
                room += reached.size_bytes
                reached = reached.next
            if room >= size_bytes:
                assert start is not None
                return start
        page_bytes = SMALL_SEGMENT_BYTES if pool.is_small else self._large_page_bytes
        usable_bytes = self._device.usable_bytes
        segment = ExpandableSegment(0, usable_bytes + usable_bytes // 8, page_bytes)
        segment.address = self._device.reserve_addresses(segment.size_bytes)
        block = Block(segment.address, segment.size_bytes, stream, pool)
        block.mapped = False
        block.expandable = segment
        pool.add_unmapped(block)
        return block

    def _map(self, block: Block, size_bytes: int) -> bool:
        """Gives memory to the front of an unmapped block and frees it into the pool; False where there is none."""
        segment, pool = block.expandable, block.pool
        assert segment is not None
        first, last = segment.pages_around(block.address, size_bytes)
        assert first == block.address
        if not self._device.commit(last - first):
            return False
        pool.remove_unmapped(block)
        block.mapped = True
        if last - first < block.size_bytes:
            rest = self._piece(block, last, block.size_bytes - (last - first))
            rest.mapped = False
            rest.splice(block, block.next)
            pool.add_unmapped(rest)
            block.size_bytes = last - first
        merge(block, block.previous)
        merge(block, block.next)
        pool.add(block)
        self._changed(block, first, last - first)
        return True

    @staticmethod
    def _piece(block: Block, address: int, size_bytes: int) -> Block:
        piece = Block(address, size_bytes, block.stream, block.pool)
        piece.expandable = block.expandable
        return piece


def _is_available(block: Block | None) -> bool:
    return block is not None and not block.is_active
