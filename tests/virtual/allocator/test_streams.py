"""`record_stream`: memory that another stream uses is not reused before that stream is done."""

from __future__ import annotations

from flatout.virtual.allocator import CachingAllocator
from flatout.virtual.allocator.sizes import MIB


class Streams:
    """A clock of streams: an event is done when `now` has reached the time at which it was recorded to end."""

    def __init__(self) -> None:
        self.now = 0
        self.ends = 0

    def record(self, stream: int) -> object:
        return self.ends

    def done(self, event: object) -> bool:
        assert isinstance(event, int)
        return self.now >= event


def allocator(streams: Streams) -> CachingAllocator:
    return CachingAllocator(1000 * MIB, record_event=streams.record, event_done=streams.done)


def test_a_block_waits_for_the_other_stream() -> None:
    streams = Streams()
    subject = allocator(streams)
    block = subject.malloc(20 * MIB)
    subject.record_stream(block, 3)
    streams.ends = 5
    subject.free(block)
    assert subject.allocated_bytes == 0
    stats = subject.stats()
    assert stats["active_bytes"]["all"]["current"] == 20 * MIB
    assert stats["requested_bytes"]["all"]["current"] == 20 * MIB
    assert stats["allocation"]["all"]["current"] == 0
    assert subject.segments()[0]["blocks"][0]["state"] == "active_awaiting_free"
    other = subject.malloc(20 * MIB)
    assert other.address != block.address
    streams.now = 5
    assert subject.malloc(20 * MIB).address == block.address
    assert subject.stats()["active_bytes"]["all"]["current"] == 40 * MIB


def test_the_own_stream_needs_no_waiting() -> None:
    subject = allocator(Streams())
    block = subject.malloc(20 * MIB, stream=4)
    subject.record_stream(block, 4)
    subject.free(block)
    assert subject.malloc(20 * MIB, stream=4).address == block.address


def test_waiting_blocks_do_not_merge_until_they_are_free() -> None:
    streams = Streams()
    subject = allocator(streams)
    first, second, third = (subject.malloc(4 * MIB) for _ in range(3))
    subject.record_stream(second, 1)
    streams.ends = 1
    for block in (first, second, third):
        subject.free(block)
    assert len(subject.segments()[0]["blocks"]) == 3
    streams.now = 1
    subject.process_events()
    assert len(subject.segments()[0]["blocks"]) == 1


def test_retry_waits_for_all_streams() -> None:
    streams = Streams()
    subject = CachingAllocator(100 * MIB, record_event=streams.record, event_done=streams.done)
    block = subject.malloc(80 * MIB)
    subject.record_stream(block, 1)
    subject.record_stream(block, 2)
    streams.ends = 9
    subject.free(block)
    subject.malloc(90 * MIB)
    assert subject.stats()["num_sync_all_streams"] == 1


def test_a_capture_defers_waiting_blocks_until_it_has_ended() -> None:
    subject = CachingAllocator(1000 * MIB)
    early, late = subject.malloc(20 * MIB), subject.malloc(20 * MIB)
    subject.record_stream(early, 1)
    subject.begin_allocate_to_pool((1, 0), lambda stream: stream == 9)
    subject.record_stream(late, 1)
    subject.free(early)
    subject.free(late)
    assert subject.malloc(20 * MIB).address not in (early.address, late.address)
    subject.end_allocate_to_pool((1, 0))
    assert {subject.malloc(20 * MIB).address for _ in range(2)} == {early.address, late.address}
