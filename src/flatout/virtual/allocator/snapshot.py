"""The allocator's memory, segment by segment, in the shape of `torch.cuda.memory_snapshot`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.pools import DEFAULT_POOL


def list_segments(blocks: Iterable[Block], device_index: int = 0) -> list[dict[str, Any]]:
    """One entry for each contiguous mapped range, by address; `blocks` are all mapped blocks, in any order."""
    heads = [block for block in blocks if block.previous is None or not block.previous.mapped]
    return [_segment(head, device_index) for head in sorted(heads, key=lambda block: block.address)]


def _segment(head: Block, device_index: int) -> dict[str, Any]:
    chain = []
    block: Block | None = head
    while block is not None and block.mapped:
        chain.append(block)
        block = block.next
    owner = head.pool.owner
    return {
        "device": device_index,
        "address": head.address,
        "total_size": sum(block.size_bytes for block in chain),
        "allocated_size": sum(block.size_bytes for block in chain if block.allocated),
        "active_size": sum(block.size_bytes for block in chain if block.is_active),
        "requested_size": sum(block.requested_bytes for block in chain if block.is_active),
        "stream": head.stream,
        "segment_type": "small" if head.pool.is_small else "large",
        "segment_pool_id": DEFAULT_POOL if owner is None else owner.id,
        "is_expandable": head.expandable is not None,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.size_bytes,
                "requested_size": block.requested_bytes,
                "state": _state(block),
                "frames": [],
            }
            for block in chain
        ],
    }


def _state(block: Block) -> str:
    if block.allocated:
        return "active_allocated"
    return "active_awaiting_free" if block.is_active else "inactive"
