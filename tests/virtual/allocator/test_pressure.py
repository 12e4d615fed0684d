"""What happens when the device is full: the order of PyTorch's attempts, and the settings that change it."""

from __future__ import annotations

import pytest

from flatout.virtual.allocator import AllocatorConfiguration, Block, CachingAllocator, OutOfDeviceMemory
from flatout.virtual.allocator.sizes import MIB


def allocator(usable_mib: int, settings: str = "", outside_mib: int = 0) -> CachingAllocator:
    return CachingAllocator(usable_mib * MIB, outside_mib * MIB, AllocatorConfiguration.parse(settings))


def test_out_of_memory_says_what_it_knew_and_leaves_the_state_alone() -> None:
    subject = allocator(100, outside_mib=10)
    subject.malloc(60 * MIB)
    with pytest.raises(OutOfDeviceMemory) as raised:
        subject.malloc(31 * MIB)
    failure = raised.value
    assert (failure.requested_bytes, failure.attempted_bytes) == (31 * MIB, 32 * MIB)
    assert (failure.allocated_bytes, failure.reserved_bytes) == (60 * MIB, 60 * MIB)
    assert (failure.free_bytes, failure.total_bytes, failure.limit_bytes) == (30 * MIB, 100 * MIB, None)
    assert subject.stats()["num_ooms"] == subject.stats()["num_alloc_retries"] == 1
    assert subject.malloc(30 * MIB).size_bytes == 30 * MIB


def test_cached_segments_are_returned_before_giving_up() -> None:
    subject = allocator(100)
    subject.free(subject.malloc(60 * MIB))
    assert subject.malloc(70 * MIB).size_bytes == 70 * MIB
    assert subject.reserved_bytes == 70 * MIB
    assert subject.stats()["num_alloc_retries"] == 1
    assert subject.stats()["num_ooms"] == 0
    assert subject.peak_reserved_bytes == 70 * MIB


def test_a_segment_with_one_live_block_cannot_be_returned() -> None:
    subject = allocator(100)
    live, free = subject.malloc(20 * MIB), subject.malloc(60 * MIB)
    subject.free(free)
    splinter = subject.malloc(30 * MIB)
    with pytest.raises(OutOfDeviceMemory):
        subject.malloc(40 * MIB)
    assert (live.allocated, splinter.allocated) == (True, True)
    assert subject.reserved_bytes - subject.allocated_bytes == 30 * MIB


def test_free_callbacks_come_before_the_device() -> None:
    subject = allocator(100)
    hoard: list[Block] = [subject.malloc(60 * MIB)]

    def give_back() -> bool:
        if not hoard:
            return False
        subject.free(hoard.pop())
        return True

    subject.free_callbacks.append(give_back)
    subject.malloc(60 * MIB)
    assert subject.reserved_bytes == 60 * MIB
    assert subject.stats()["num_alloc_retries"] == 0


def test_memory_fraction_limits_reserved_memory() -> None:
    subject = allocator(100)
    subject.set_memory_fraction(0.5)
    subject.malloc(40 * MIB)
    with pytest.raises(OutOfDeviceMemory, match=r"50\.00 MiB allowed; Of the allocated memory"):
        subject.malloc(12 * MIB)
    assert allocator(100, "per_process_memory_fraction:0.25")._segments.limit_bytes == 25 * MIB


def test_blocks_above_the_split_limit_stay_whole() -> None:
    subject = allocator(1000, "max_split_size_mb:50")
    subject.free(subject.malloc(60 * MIB))
    small = subject.malloc(10 * MIB)
    assert subject.reserved_bytes == 70 * MIB, "a request below the limit must not break into a block above it"
    assert small.size_bytes == 10 * MIB
    assert subject.malloc(52 * MIB).size_bytes == 60 * MIB, (
        "one above takes it whole if it is less than 20 MiB too large"
    )
    subject.free(subject.malloc(100 * MIB))
    subject.malloc(80 * MIB)
    assert subject.reserved_bytes == 250 * MIB
    assert subject.stats()["oversize_segments"]["current"] == 3
    assert subject.stats()["oversize_allocations"]["current"] == 2
    assert subject.stats()["max_split_size"] == 50 * MIB


def test_oversize_blocks_are_returned_first_and_only_as_needed() -> None:
    subject = allocator(300, "max_split_size_mb:20")
    blocks = [subject.malloc(size * MIB) for size in (100, 60, 80, 10)]
    for block in blocks:
        subject.free(block)
    subject.malloc(130 * MIB)
    assert subject.stats()["num_alloc_retries"] == 0
    assert subject.reserved_bytes == 130 * MIB + (60 + 10) * MIB, "the largest went first, until 130 MiB were free"


def test_the_smallest_sufficient_oversize_block_is_returned() -> None:
    subject = allocator(300, "max_split_size_mb:20")
    for block in [subject.malloc(size * MIB) for size in (100, 90, 80)]:
        subject.free(block)
    subject.malloc(60 * MIB)
    assert subject.reserved_bytes == (100 + 90 + 60) * MIB


def test_garbage_collection_returns_the_old_and_keeps_the_young() -> None:
    subject = allocator(1000, "garbage_collection_threshold:0.5")
    subject.set_memory_fraction(1.0)
    other = subject.malloc(20 * MIB, stream=1)
    ballast, old, young = (subject.malloc(size * MIB) for size in (200, 200, 190))
    subject.free(other)
    subject.free(old)
    for _ in range(10):
        subject.free(subject.malloc(20 * MIB, stream=1))
    subject.free(young)
    assert subject.reserved_bytes == 610 * MIB
    subject.malloc(210 * MIB)
    assert subject.reserved_bytes == (20 + 200 + 190 + 210) * MIB
    assert subject.stats()["num_alloc_retries"] == 0
    assert ballast.allocated


def test_garbage_collection_needs_a_memory_fraction() -> None:
    subject = allocator(1000, "garbage_collection_threshold:0.5")
    subject.free(subject.malloc(600 * MIB))
    subject.malloc(300 * MIB)
    subject.malloc(310 * MIB)
    assert subject.reserved_bytes == 910 * MIB
