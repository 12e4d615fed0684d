from __future__ import annotations

from flatout.virtual.allocator import CachingAllocator
from flatout.virtual.allocator.sizes import MIB


def test_the_keys_are_those_of_memory_stats() -> None:
    stats = CachingAllocator(100 * MIB).stats()
    pools = ("all", "small_pool", "large_pool")
    measures = {"current", "peak", "allocated", "freed"}
    for name in (
        "allocation",
        "segment",
        "active",
        "inactive_split",
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "inactive_split_bytes",
        "requested_bytes",
    ):
        assert tuple(sorted(stats[name])) == tuple(sorted(pools))
        assert all(set(stats[name][pool]) == measures for pool in pools)
    assert set(stats["oversize_allocations"]) == set(stats["oversize_segments"]) == measures
    assert stats["max_split_size"] == -1
    for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"):
        assert stats[name] == 0


def test_current_peak_and_history() -> None:
    subject = CachingAllocator(1000 * MIB)
    first, second = subject.malloc(30 * MIB - 100), subject.malloc(700)
    subject.free(first)
    third = subject.malloc(10 * MIB)
    stats = subject.stats()
    assert stats["allocated_bytes"]["all"] == {
        "current": 10 * MIB + 1024,
        "peak": 30 * MIB + 1024,
        "allocated": 40 * MIB + 1024,
        "freed": 30 * MIB,
    }
    assert stats["requested_bytes"]["large_pool"]["peak"] == 30 * MIB - 100
    assert stats["allocation"]["small_pool"]["current"] == 1
    assert stats["segment"]["all"]["current"] == 2
    assert stats["inactive_split"]["large_pool"]["current"] == 1
    assert stats["inactive_split_bytes"]["large_pool"]["current"] == 20 * MIB
    assert subject.peak_allocated_bytes == 30 * MIB + 1024
    assert subject.peak_reserved_bytes == subject.reserved_bytes == 32 * MIB
    subject.free(second)
    subject.free(third)
    assert subject.stats()["inactive_split_bytes"]["all"]["current"] == 0


def test_a_peak_between_two_readings_is_seen() -> None:
    subject = CachingAllocator(1000 * MIB)
    assert subject.peak_allocated_bytes == 0
    subject.malloc(20 * MIB)
    assert subject.peak_allocated_bytes == 20 * MIB
    subject.malloc(20 * MIB)
    assert subject.peak_allocated_bytes == 40 * MIB


def test_reset_of_peaks() -> None:
    subject = CachingAllocator(1000 * MIB)
    keep, drop = subject.malloc(20 * MIB), subject.malloc(40 * MIB)
    subject.free(drop)
    subject.empty_cache()
    subject.reset_peaks()
    assert (subject.peak_allocated_bytes, subject.peak_reserved_bytes) == (20 * MIB, 20 * MIB)
    subject.free(keep)
    subject.malloc(10 * MIB)
    assert subject.peak_allocated_bytes == 20 * MIB
    subject.malloc(30 * MIB)
    assert subject.peak_allocated_bytes == 40 * MIB


def test_reset_of_history() -> None:
    subject = CachingAllocator(1000 * MIB)
    keep = subject.malloc(20 * MIB)
    subject.free(subject.malloc(40 * MIB))
    subject.reset_accumulated()
    subject.free(keep)
    assert subject.stats()["allocated_bytes"]["all"] == {
        "current": 0,
        "peak": 60 * MIB,
        "allocated": 0,
        "freed": 20 * MIB,
    }
    assert subject.stats()["num_device_alloc"] == 0
