"""CUDA graphs and `torch.cuda.MemPool`: memory set apart."""

from __future__ import annotations

import pytest

from flatout.virtual.allocator import CachingAllocator, OutOfDeviceMemory
from flatout.virtual.allocator.sizes import MIB

POOL = (0, 1)


def test_a_capture_takes_nothing_from_the_common_cache() -> None:
    subject = CachingAllocator(1000 * MIB)
    cached = subject.malloc(20 * MIB)
    subject.free(cached)
    subject.begin_allocate_to_pool(POOL)
    inside = subject.malloc(20 * MIB)
    subject.free(inside)
    assert subject.malloc(20 * MIB).address == inside.address
    subject.end_allocate_to_pool(POOL)
    assert inside.address != cached.address
    assert subject.malloc(20 * MIB).address == cached.address
    pools = {segment["address"]: segment["segment_pool_id"] for segment in subject.segments()}
    assert pools == {cached.address: (0, 0), inside.address: POOL}


def test_only_streams_that_pass_the_filter_go_to_the_pool() -> None:
    subject = CachingAllocator(1000 * MIB)
    subject.begin_allocate_to_pool(POOL, lambda stream: stream == 2)
    subject.malloc(20 * MIB, stream=1)
    subject.malloc(20 * MIB, stream=2)
    assert [segment["segment_pool_id"] for segment in subject.segments()] == [(0, 0), POOL]


def test_memory_of_a_live_graph_is_not_returned() -> None:
    subject = CachingAllocator(100 * MIB)
    subject.begin_allocate_to_pool(POOL)
    subject.free(subject.malloc(60 * MIB))
    subject.end_allocate_to_pool(POOL)
    with pytest.raises(OutOfDeviceMemory) as raised:
        subject.malloc(50 * MIB)
    assert raised.value.private_pools_bytes == 60 * MIB
    assert "with 60.00 MiB allocated in private pools (e.g., CUDA Graphs), and 0 bytes" in str(raised.value)
    subject.release_pool(POOL)
    subject.malloc(50 * MIB)
    assert subject.reserved_bytes == 50 * MIB


def test_empty_cache_of_one_pool() -> None:
    subject = CachingAllocator(1000 * MIB)
    subject.free(subject.malloc(30 * MIB))
    subject.begin_allocate_to_pool(POOL)
    subject.free(subject.malloc(60 * MIB))
    subject.end_allocate_to_pool(POOL)
    subject.empty_cache(POOL)
    assert subject.reserved_bytes == 30 * MIB


def test_captures_begin_and_end_in_pairs() -> None:
    subject = CachingAllocator(1000 * MIB)
    subject.begin_allocate_to_pool(POOL)
    with pytest.raises(RuntimeError, match="already recording to mempool_id"):
        subject.begin_allocate_to_pool(POOL)
    subject.end_allocate_to_pool(POOL)
    with pytest.raises(RuntimeError, match="not currently recording to mempool_id"):
        subject.end_allocate_to_pool(POOL)
    subject.begin_allocate_to_pool(POOL)
    subject.end_allocate_to_pool(POOL)
    subject.release_pool(POOL)
    subject.release_pool(POOL)
    with pytest.raises(RuntimeError, match="no pool of this id"):
        subject.release_pool(POOL)
