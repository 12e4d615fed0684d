"""Which free block serves a request: the best fit, with the exceptions that settings bring."""

from __future__ import annotations

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.configuration import AllocatorConfiguration
from flatout.virtual.allocator.pools import BlockPool


def find_block(pool: BlockPool, stream: int, size_bytes: int, configuration: AllocatorConfiguration) -> Block | None:
    """Takes the block for a (rounded) request out of the pool; None where none will do.

    The smallest block of the stream that is large enough, the lowest address among equals. Blocks of
    `max_split_size_bytes` or more serve only requests of that size or more, and only if not much too large.
    """
    pool.searches += 1
    free = pool.free.get(stream)
    if free is None:
        return None
    blocks = free.blocks
    index = free.first_at_least(size_bytes)
    if index == len(blocks):
        return None
    if blocks[index].expandable is not None:
        if configuration.expandable_segments:
            index = _prefer_least_expandable(blocks, index)
        else:
            while index < len(blocks) and blocks[index].expandable is not None:
                index += 1
            if index == len(blocks):
                return None
    block = blocks[index]
    limit_bytes = configuration.max_split_size_bytes
    if limit_bytes is not None:
        if size_bytes < limit_bytes <= block.size_bytes:
            return None
        if size_bytes >= limit_bytes and block.size_bytes >= size_bytes + configuration.max_non_split_rounding_bytes:
            return None
    pool.remove(block)
    return block


def _prefer_least_expandable(blocks: list[Block], index: int) -> int:
    """A block at the edge of mapped memory counts as large as it could grow; smaller ones are taken first."""
    while (
        blocks[index].expandable is not None
        and index + 1 < len(blocks)
        and _size_with_growth(blocks[index + 1]) < _size_with_growth(blocks[index])
    ):
        index += 1
    return index


def _size_with_growth(block: Block) -> int:
    following = block.next
    return block.size_bytes + (following.size_bytes if following is not None and not following.mapped else 0)
