"""Coalescing: a free block takes in a free neighbour."""

from __future__ import annotations

from flatout.virtual.allocator.blocks import Block


def merge(block: Block, neighbour: Block | None) -> int:
    """Makes `neighbour` part of `block` if it is free and of the same kind (both mapped or both not).

    Returns the bytes gained, 0 where they stay apart. `block` itself must be in no free list.
    """
    if neighbour is None or neighbour.is_active or neighbour.mapped != block.mapped:
        return 0
    pool = block.pool
    if neighbour.mapped:
        pool.remove(neighbour)
    else:
        pool.remove_unmapped(neighbour)
    if neighbour is block.previous:
        block.address = neighbour.address
        block.previous = neighbour.previous
        if block.previous is not None:
            block.previous.next = block
    else:
        block.next = neighbour.next
        if block.next is not None:
            block.next.previous = block
    block.size_bytes += neighbour.size_bytes
    return neighbour.size_bytes
