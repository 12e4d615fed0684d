from __future__ import annotations

import pytest

from flatout.virtual.allocator import CachingAllocator
from flatout.virtual.allocator.sizes import MIB

GIB = 1 << 30


def allocator() -> CachingAllocator:
    return CachingAllocator(8 * GIB)


def test_small_requests_share_a_segment() -> None:
    subject = allocator()
    first, second = subject.malloc(1), subject.malloc(600)
    assert (first.size_bytes, second.size_bytes) == (512, 1024)
    assert second.address == first.address + 512
    assert subject.reserved_bytes == 2 * MIB
    assert subject.allocated_bytes == 1536


def test_segments_are_aligned_and_addresses_repeat_from_run_to_run() -> None:
    subject, again = allocator(), allocator()
    for size in (1, 3 * MIB, 33 * MIB, 11 * MIB):
        block = subject.malloc(size)
        assert block.address == again.malloc(size).address
        assert block.segment_address % (2 * MIB) == 0


def test_large_pool_keeps_a_rest_of_one_mib_and_splits_a_larger_one() -> None:
    subject = allocator()
    kept = subject.malloc(11 * MIB)
    assert (kept.size_bytes, kept.requested_bytes) == (12 * MIB, 11 * MIB)
    split = subject.malloc(11 * MIB - 512)
    assert split.size_bytes == 11 * MIB - 512
    assert split.next is not None
    assert split.next.size_bytes == MIB + 512
    assert subject.allocated_bytes == 23 * MIB - 512


def test_small_pool_splits_down_to_512_bytes() -> None:
    subject = allocator()
    subject.malloc(MIB)
    assert subject.malloc(MIB - 512).size_bytes == MIB - 512
    assert subject.malloc(512).size_bytes == 512
    assert subject.reserved_bytes == 2 * MIB


def test_the_smallest_sufficient_block_is_taken_and_the_lowest_of_equals() -> None:
    subject = allocator()
    blocks = [subject.malloc(size * MIB) for size in (30, 12, 12, 16)]
    for block in blocks:
        subject.free(block)
    addresses = [block.address for block in blocks]
    assert subject.malloc(11 * MIB).address == min(addresses[1:3])
    assert subject.malloc(11 * MIB).address == max(addresses[1:3])
    assert subject.malloc(11 * MIB).address == addresses[3]
    assert subject.reserved_bytes == 70 * MIB


def test_small_and_large_requests_do_not_share_memory() -> None:
    subject = allocator()
    subject.free(subject.malloc(20 * MIB))
    subject.malloc(MIB)
    assert subject.reserved_bytes == 22 * MIB


def test_free_neighbours_become_one_block() -> None:
    subject = allocator()
    blocks = [subject.malloc(4 * MIB) for _ in range(5)]
    assert subject.reserved_bytes == 20 * MIB
    for index in (0, 2, 4, 3, 1):
        subject.free(blocks[index])
    assert subject.malloc(20 * MIB).address == blocks[0].address
    assert subject.reserved_bytes == 20 * MIB


def test_blocks_of_one_stream_do_not_serve_another() -> None:
    subject = allocator()
    block = subject.malloc(20 * MIB, stream=1)
    subject.free(block)
    assert subject.malloc(20 * MIB, stream=2).address != block.address
    assert subject.malloc(20 * MIB, stream=1).address == block.address


def test_empty_cache_returns_only_segments_without_live_blocks() -> None:
    subject = allocator()
    keep, drop, whole = subject.malloc(4 * MIB), subject.malloc(4 * MIB), subject.malloc(40 * MIB)
    subject.free(drop)
    subject.free(whole)
    subject.empty_cache()
    assert subject.reserved_bytes == 20 * MIB
    subject.free(keep)
    subject.empty_cache()
    assert subject.reserved_bytes == subject.allocated_bytes == 0
    assert subject.segments() == []


def test_returned_addresses_are_used_again() -> None:
    subject = allocator()
    first = subject.malloc(40 * MIB).address
    block = subject.malloc(30 * MIB)
    subject.free(block)
    subject.empty_cache()
    assert subject.malloc(12 * MIB).address == first + 40 * MIB


def test_the_observer_hears_everything_in_order() -> None:
    heard: list[tuple[str, int, int, int, int]] = []
    subject = CachingAllocator(8 * GIB, observer=lambda *event: heard.append(event))
    block = subject.malloc(3 * MIB + 1, stream=7)
    subject.free(block)
    subject.empty_cache()
    size = 3 * MIB + 512
    assert heard == [
        ("segment_alloc", block.address, 20 * MIB, 20 * MIB, 7),
        ("alloc", block.address, size, 3 * MIB + 1, 7),
        ("free", block.address, size, 3 * MIB + 1, 7),
        ("segment_free", block.address, 20 * MIB, 20 * MIB, 7),
    ]


def test_mistakes_of_the_caller_are_refused() -> None:
    subject = allocator()
    block = subject.malloc(1)
    subject.free(block)
    with pytest.raises(ValueError, match="was freed before"):
        subject.free(block)
    with pytest.raises(ValueError, match="cannot allocate 0 bytes"):
        subject.malloc(0)


def test_rounding_to_divisions_is_obeyed() -> None:
    from flatout.virtual.allocator import AllocatorConfiguration

    subject = CachingAllocator(8 * GIB, configuration=AllocatorConfiguration.parse("roundup_power2_divisions:2"))
    assert subject.malloc(33 * MIB).size_bytes == 48 * MIB


def test_segments_in_the_shape_of_memory_snapshot() -> None:
    subject = allocator()
    block = subject.malloc(3 * MIB, stream=5)
    (segment,) = subject.segments()
    assert segment["address"] == block.address
    assert (segment["total_size"], segment["allocated_size"], segment["active_size"]) == (20 * MIB, 3 * MIB, 3 * MIB)
    assert (segment["stream"], segment["segment_type"], segment["segment_pool_id"]) == (5, "large", (0, 0))
    assert [(entry["size"], entry["state"]) for entry in segment["blocks"]] == [
        (3 * MIB, "active_allocated"),
        (17 * MIB, "inactive"),
    ]


def test_a_listed_state_can_be_taken_over() -> None:
    subject, copy = allocator(), allocator()
    blocks = [subject.malloc(size) for size in (1000, 3 * MIB, 50 * MIB, 2000, 5 * MIB)]
    subject.free(blocks[1])
    subject.free(blocks[3])
    restored = copy.restore(subject.segments())
    assert copy.segments() == subject.segments()
    assert copy.allocated_bytes == copy.peak_allocated_bytes == subject.allocated_bytes
    assert sorted(restored) == sorted(blocks[index].address for index in (0, 2, 4))
    for size in (1500, 2 * MIB, 60 * MIB):
        assert copy.malloc(size).address == subject.malloc(size).address
