"""A block: a range of addresses in a segment, in use or cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatout.virtual.allocator.expandable import ExpandableSegment
    from flatout.virtual.allocator.pools import BlockPool


class Block:
    """A range of device memory. The blocks of a segment are a chain that covers it without gaps.

    `size_bytes` is the block's own size, `requested_bytes` what the caller asked for. A freed block may be merged with
    its neighbours at any time: whoever frees a block must forget it.
    """

    __slots__ = (
        "address",
        "allocated",
        "event_count",
        "expandable",
        "mapped",
        "next",
        "pool",
        "previous",
        "requested_bytes",
        "search_count",
        "size_bytes",
        "stream",
        "stream_uses",
    )

    def __init__(self, address: int, size_bytes: int, stream: int, pool: BlockPool) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.stream = stream
        self.pool = pool
        self.requested_bytes = 0
        self.allocated = False
        self.mapped = True
        self.previous: Block | None = None
        self.next: Block | None = None
        self.stream_uses: set[int] | None = None
        self.event_count = 0
        self.search_count = 0  # searches in the pool when this block came to rest there: its age
        self.expandable: ExpandableSegment | None = None

    def __repr__(self) -> str:
        state = "allocated" if self.allocated else "active" if self.is_active else "free" if self.mapped else "unmapped"
        return f"<Block 0x{self.address:x} {self.size_bytes} bytes, stream {self.stream}, {state}>"

    @property
    def is_split(self) -> bool:
        """Whether the block is one of several in its segment, so that the segment cannot be returned."""
        return self.previous is not None or self.next is not None

    @property
    def is_active(self) -> bool:
        """Allocated, or freed but still used by another stream."""
        return self.allocated or self.event_count > 0 or bool(self.stream_uses)

    @property
    def segment_address(self) -> int:
        """Where the contiguous mapped range that holds this block begins."""
        head = self
        while head.previous is not None and head.previous.mapped:
            head = head.previous
        return head.address

    def splice(self, before: Block | None, after: Block | None) -> None:
        """Puts this block into the chain between two neighbours."""
        self.previous, self.next = before, after
        if before is not None:
            before.next = self
        if after is not None:
            after.previous = self
