"""Cached blocks, kept so that the best fit is found quickly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from flatout.virtual.allocator.blocks import Block

if TYPE_CHECKING:
    from flatout.virtual.allocator.statistics import Traffic

PoolId: TypeAlias = tuple[int, int]
"""PyTorch's memory pool id; (0, 0) is the default pool."""
DEFAULT_POOL: PoolId = (0, 0)

ADDRESS_BITS = 48
"""Device addresses are below 2**48, so that one integer orders blocks by size, then by address."""


class FreeList:
    """Free blocks of one stream, ordered by size and, among equals, by address."""

    __slots__ = ("blocks", "keys")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.blocks: list[Block] = []

    def add(self, block: Block) -> None:
        key = block.size_bytes << ADDRESS_BITS | block.address
        index = bisect_left(self.keys, key)
        self.keys.insert(index, key)
        self.blocks.insert(index, block)

    def remove(self, block: Block) -> None:
        """Takes out a block that is known to be here."""
        index = bisect_left(self.keys, block.size_bytes << ADDRESS_BITS | block.address)
        assert self.blocks[index] is block
        del self.keys[index]
        del self.blocks[index]

    def first_at_least(self, size_bytes: int) -> int:
        """Index of the smallest block of `size_bytes` or more; the list's length where there is none."""
        return bisect_left(self.keys, size_bytes << ADDRESS_BITS)


class BlockPool:
    """Free blocks, all small or all large; `unmapped` are ranges of expandable segments without memory."""

    __slots__ = ("free", "is_small", "owner", "searches", "traffic", "unmapped")

    def __init__(self, is_small: bool, traffic: Traffic, owner: PrivatePool | None = None) -> None:
        self.is_small = is_small
        self.traffic = traffic
        self.owner = owner
        self.searches = 0
        self.free: dict[int, FreeList] = {}
        self.unmapped: dict[int, list[Block]] = {}

    def add(self, block: Block) -> None:
        block.search_count = self.searches
        free = self.free.get(block.stream)
        if free is None:
            free = self.free[block.stream] = FreeList()
        free.add(block)

    def remove(self, block: Block) -> None:
        self.free[block.stream].remove(block)

    def add_unmapped(self, block: Block) -> None:
        blocks = self.unmapped.setdefault(block.stream, [])
        blocks.append(block)
        blocks.sort(key=lambda other: other.address)

    def remove_unmapped(self, block: Block) -> None:
        self.unmapped[block.stream].remove(block)

    def cached_blocks(self) -> Iterator[Block]:
        """All free blocks, by stream, then size, then address. Safe against removals while iterating."""
        for stream in sorted(self.free):
            yield from list(self.free[stream].blocks)

    @property
    def cached_bytes(self) -> int:
        return sum(block.size_bytes for block in self.cached_blocks())


class PrivatePool:
    """Memory set apart for CUDA graphs (or a `torch.cuda.MemPool`).

    `use_count` counts the captures that hold it, `segment_count` the segments that it has from the device.
    """

    __slots__ = ("id", "large", "segment_count", "small", "use_count")

    def __init__(self, pool_id: PoolId, small: Traffic, large: Traffic) -> None:
        self.id = pool_id
        self.use_count = 1
        self.segment_count = 0
        self.small = BlockPool(True, small, self)
        self.large = BlockPool(False, large, self)
