from __future__ import annotations

import pytest

from flatout.virtual.allocator import AllocatorConfiguration, CachingAllocator, OutOfDeviceMemory
from flatout.virtual.allocator.sizes import MIB

EXPANDABLE = AllocatorConfiguration.parse("expandable_segments:True")


def allocator(usable_mib: int = 1000) -> CachingAllocator:
    return CachingAllocator(usable_mib * MIB, configuration=EXPANDABLE)


def test_a_segment_grows_page_by_page_without_a_gap() -> None:
    subject = allocator()
    first, second = subject.malloc(15 * MIB), subject.malloc(15 * MIB)
    assert second.address == first.address + 15 * MIB
    assert subject.reserved_bytes == 40 * MIB
    (segment,) = subject.segments()
    assert (segment["total_size"], segment["is_expandable"]) == (40 * MIB, True)
    assert subject.stats()["segment"]["all"]["current"] == 0
    assert subject.stats()["num_device_alloc"] == 2


def test_small_requests_have_a_segment_of_2_mib_pages() -> None:
    subject = allocator()
    for _ in range(3):
        subject.malloc(MIB)
    assert subject.reserved_bytes == 4 * MIB
    assert subject.segments()[0]["segment_type"] == "small"


def test_each_stream_has_its_own_segment() -> None:
    subject = allocator()
    subject.malloc(20 * MIB, stream=0)
    subject.malloc(20 * MIB, stream=1)
    assert [segment["stream"] for segment in subject.segments()] == [0, 1]


def test_a_growing_batch_does_not_fragment() -> None:
    sizes = (100, 110, 120, 130)
    reserved = []
    for configuration in (AllocatorConfiguration(), EXPANDABLE):
        subject = CachingAllocator(10_000 * MIB, configuration=configuration)
        for size in sizes:
            subject.free(subject.malloc(size * MIB))
        reserved.append(subject.reserved_bytes)
    assert reserved == [sum(sizes) * MIB, 140 * MIB]


def test_whole_free_pages_are_returned_and_filled_again_from_below() -> None:
    subject = allocator()
    blocks = [subject.malloc(20 * MIB) for _ in range(5)]
    subject.free(blocks[1])
    subject.free(blocks[2])
    subject.empty_cache()
    assert subject.reserved_bytes == 60 * MIB
    assert [segment["total_size"] for segment in subject.segments()] == [20 * MIB, 40 * MIB]
    assert subject.malloc(30 * MIB).address == blocks[1].address
    assert subject.reserved_bytes == 100 * MIB


def test_part_of_a_page_stays() -> None:
    subject = allocator()
    keep, drop = subject.malloc(5 * MIB), subject.malloc(55 * MIB)
    subject.free(drop)
    subject.empty_cache()
    assert subject.reserved_bytes == 20 * MIB
    assert [block["size"] for block in subject.segments()[0]["blocks"]] == [5 * MIB, 15 * MIB]
    subject.free(keep)
    subject.empty_cache()
    assert subject.reserved_bytes == 0
    assert subject.segments() == []


def test_unused_pages_make_room_on_another_stream() -> None:
    subject = allocator(100)
    subject.free(subject.malloc(80 * MIB, stream=1))
    subject.malloc(60 * MIB, stream=2)
    assert subject.reserved_bytes == 60 * MIB
    assert subject.stats()["num_alloc_retries"] == 1


def test_a_full_device_is_out_of_memory() -> None:
    subject = allocator(100)
    subject.malloc(70 * MIB)
    with pytest.raises(OutOfDeviceMemory) as raised:
        subject.malloc(40 * MIB)
    assert raised.value.reserved_bytes <= 100 * MIB
    subject.malloc(20 * MIB)


def test_blocks_that_can_grow_are_the_last_choice() -> None:
    subject = allocator()
    hole = subject.malloc(40 * MIB)
    subject.malloc(20 * MIB)
    subject.free(subject.malloc(20 * MIB))
    address = hole.address
    subject.free(hole)
    assert subject.malloc(15 * MIB).address == address, "the 20 MiB at the end fit better but can grow"


def test_events_pair_up() -> None:
    heard: list[tuple[str, int]] = []
    subject = allocator()
    subject.observer = lambda action, address, size_bytes, requested_bytes, stream: heard.append((action, size_bytes))
    subject.free(subject.malloc(30 * MIB))
    subject.empty_cache()
    assert heard == [
        ("segment_alloc", 40 * MIB),
        ("alloc", 30 * MIB),
        ("free", 30 * MIB),
        ("segment_free", 40 * MIB),
    ]
