"""How a request becomes a block's size, and a block's size a segment's.

The constants are those of PyTorch's caching allocator (`c10/core/AllocatorConfig.h`, unchanged from 2.0 to 2.13).
"""

from __future__ import annotations

MIB = 1 << 20
MIN_BLOCK_BYTES = 512
"""Every block's size is a multiple of this (`kMinBlockSize`)."""
SMALL_REQUEST_BYTES = MIB
"""Largest request that the small pool serves (`kSmallSize`)."""
SMALL_SEGMENT_BYTES = 2 * MIB
"""A segment of the small pool (`kSmallBuffer`)."""
MIN_LARGE_SEGMENT_BYTES = 10 * MIB
"""Requests from this size on get a segment of their own size (`kMinLargeAlloc`)."""
LARGE_SEGMENT_BYTES = 20 * MIB
"""Segment for a large request below `MIN_LARGE_SEGMENT_BYTES`, unless `large_segment_size_mb` says otherwise."""
ROUND_LARGE_BYTES = 2 * MIB
"""Own-size segments are rounded up to this (`kRoundLarge`)."""
ROUNDUP_INTERVALS = 16
"""Powers of two from 1 MiB to 64 GiB, each with its own `roundup_power2_divisions`."""


def round_to_divisions(size_bytes: int, divisions: int) -> int:
    """The smallest size >= `size_bytes` among `divisions` equal steps between two powers of two.

    With 4 divisions, 1200 becomes 1280: the steps above 1024 are 256 wide.
    """
    floor = 1 << (size_bytes.bit_length() - 1)
    if floor == size_bytes:
        return size_bytes
    step = floor >> (divisions.bit_length() - 1)
    if step == 0:
        return floor << 1
    return -(-size_bytes // step) * step


def round_size(size_bytes: int, roundup_divisions: tuple[int, ...]) -> int:
    """Bytes of the block that serves a request of `size_bytes`.

    `roundup_divisions` has one number for each power of two from 1 MiB on (see `ROUNDUP_INTERVALS`); 0 and 1 mean off.
    """
    if size_bytes < MIN_BLOCK_BYTES:
        return MIN_BLOCK_BYTES
    interval = size_bytes.bit_length() - MIB.bit_length()
    divisions = roundup_divisions[min(max(interval, 0), ROUNDUP_INTERVALS - 1)]
    if divisions > 1 and size_bytes > MIN_BLOCK_BYTES * divisions:
        return round_to_divisions(size_bytes, divisions)
    return -(-size_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES


def segment_size(block_bytes: int, large_segment_bytes: int = LARGE_SEGMENT_BYTES) -> int:
    """Bytes to ask of the device when no cached block serves a (rounded) request of `block_bytes`."""
    if block_bytes <= SMALL_REQUEST_BYTES:
        return SMALL_SEGMENT_BYTES
    if block_bytes < MIN_LARGE_SEGMENT_BYTES:
        return large_segment_bytes
    return -(-block_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES
