"""What must hold whatever is allocated and freed, in any order, on any stream, with any settings."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.virtual.allocator import AllocatorConfiguration, Block, CachingAllocator, OutOfDeviceMemory
from flatout.virtual.allocator.sizes import MIB, segment_size

SETTINGS = [
    "",
    "max_split_size_mb:24",
    "expandable_segments:True",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
    "expandable_segments:True,roundup_power2_divisions:[2:1,>:2]",
    "large_segment_size_mb:33",
]
SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(MIB, 40 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB, 10 * MIB - 512, 20 * MIB, 19 * MIB]),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), SIZES, st.integers(0, 1)),
        st.tuples(st.just("free"), st.integers(0, 1000), st.just(0)),
        st.tuples(st.just("record_stream"), st.integers(0, 1000), st.integers(0, 2)),
        st.tuples(st.just("empty_cache"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def check(subject: CachingAllocator, live: list[Block]) -> None:
    """Segments do not overlap, blocks tile segments, and the sums are right."""
    end = 0
    inside = {}
    for segment in subject.segments():
        assert segment["address"] >= end
        end = segment["address"]
        for previous, block in zip([None, *segment["blocks"]], segment["blocks"], strict=False):
            assert block["address"] == end
            assert block["size"] > 0
            assert block["size"] % 512 == 0
            end += block["size"]
            inside[block["address"]] = block
            if previous is not None and not segment["is_expandable"]:
                assert "active" in previous["state"] + block["state"].replace("inactive", ""), "free neighbours merge"
        assert end == segment["address"] + segment["total_size"]
    for block in live:
        assert inside[block.address]["size"] == block.size_bytes >= block.requested_bytes
        assert inside[block.address]["state"] == "active_allocated"
    assert subject.allocated_bytes == sum(block.size_bytes for block in live)
    assert subject.reserved_bytes == sum(segment["total_size"] for segment in subject.segments())
    assert subject.reserved_bytes <= subject.device.usable_bytes
    stats = subject.stats()
    assert stats["allocated_bytes"]["all"]["current"] == subject.allocated_bytes
    assert stats["requested_bytes"]["all"]["current"] >= sum(block.requested_bytes for block in live)
    for name, pools in stats.items():
        if isinstance(pools, dict) and "all" in pools:
            assert pools["all"]["current"] == pools["small_pool"]["current"] + pools["large_pool"]["current"], name
            for tally in pools.values():
                assert 0 <= tally["current"] <= tally["peak"]
                assert tally["current"] == tally["allocated"] - tally["freed"], name


@settings(max_examples=150, deadline=None)
@given(ACTIONS, st.sampled_from(SETTINGS))
def test_memory_is_never_shared_and_sums_hold(actions: list[tuple[str, int, int]], text: str) -> None:
    subject = CachingAllocator(300 * MIB, configuration=AllocatorConfiguration.parse(text))
    live: list[Block] = []
    peak_allocated_bytes = peak_reserved_bytes = highest_bytes = 0
    for action, number, stream in actions:
        if action == "malloc":
            try:
                live.append(subject.malloc(number, stream))
            except OutOfDeviceMemory:
                assert subject.device.free_bytes < segment_size(2 * number, 33 * MIB) or "fraction" in text
        elif action == "empty_cache":
            subject.empty_cache()
        elif live and action == "free":
            subject.free(live.pop(number % len(live)))
        elif live:
            subject.record_stream(live[number % len(live)], stream)
        highest_bytes = max(highest_bytes, subject.allocated_bytes)
        assert subject.peak_allocated_bytes >= peak_allocated_bytes
        assert subject.peak_reserved_bytes >= peak_reserved_bytes
        peak_allocated_bytes, peak_reserved_bytes = subject.peak_allocated_bytes, subject.peak_reserved_bytes
    check(subject, live)
    assert peak_allocated_bytes == highest_bytes
    for block in live:
        subject.free(block)
    subject.synchronize_events()
    check(subject, [])
    if "expandable" not in text:
        assert all(len(segment["blocks"]) == 1 for segment in subject.segments())
    assert subject.stats()["inactive_split_bytes"]["all"]["current"] == 0
    subject.empty_cache()
    assert subject.reserved_bytes == 0
    assert subject.segments() == []
    assert subject.device.committed_bytes == 0


@settings(max_examples=50, deadline=None)
@given(ACTIONS)
def test_the_same_requests_get_the_same_addresses(actions: list[tuple[str, int, int]]) -> None:
    histories = []
    for _ in range(2):
        heard: list[tuple[str, int, int, int, int]] = []
        subject = CachingAllocator(300 * MIB, observer=lambda *event, heard=heard: heard.append(event))
        live: list[Block] = []
        for action, number, stream in actions:
            if action == "malloc":
                try:
                    live.append(subject.malloc(number, stream))
                except OutOfDeviceMemory:
                    continue
            elif live and action == "free":
                subject.free(live.pop(number % len(live)))
        histories.append(heard)
    assert histories[0] == histories[1]
