"""The caching allocator: which memory serves which request, by PyTorch's rules and in PyTorch's order.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp`; each module beside this one holds one of them.
"""

from __future__ import annotations

from bisect import bisect_left

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.configuration import AllocatorConfiguration
from flatout.virtual.allocator.device import DeviceMemory
from flatout.virtual.allocator.merging import merge
from flatout.virtual.allocator.out_of_memory import OutOfDeviceMemory
from flatout.virtual.allocator.pending import EventDone, PendingFrees, RecordEvent
from flatout.virtual.allocator.pools import ADDRESS_BITS, DEFAULT_POOL, BlockPool, PoolId
from flatout.virtual.allocator.private_pools import StreamFilter
from flatout.virtual.allocator.search import find_block
from flatout.virtual.allocator.segments import Observer
from flatout.virtual.allocator.sizes import (
    MIN_BLOCK_BYTES,
    SMALL_REQUEST_BYTES,
    round_size,
    segment_size,
)
from flatout.virtual.allocator.state import AllocatorState


class CachingAllocator(AllocatorState):
    """One device's caching allocator.

    `usable_bytes` is what `cudaMemGetInfo` reports as total, `outside_bytes` what of it is not PyTorch's (the CUDA
    context). `record_event` and `event_done` tell when another stream is done with a block (`record_stream`); without
    them it is by the next allocation. `device` replaces the device under the allocator (for replays).
    """

    def __init__(
        self,
        usable_bytes: int,
        outside_bytes: int = 0,
        configuration: AllocatorConfiguration | None = None,
        *,
        observer: Observer | None = None,
        record_event: RecordEvent = lambda stream: None,
        event_done: EventDone = lambda event: True,
        device: DeviceMemory | None = None,
    ) -> None:
        configuration = configuration or AllocatorConfiguration()
        super().__init__(device or DeviceMemory(usable_bytes, outside_bytes), configuration, observer)
        self._pending = PendingFrees(record_event, event_done, self._complete_free)
        self._has_pending = False
        self._rising = False  # an allocation came since the peaks were last looked at
        self._divisions = (
            configuration.roundup_power2_divisions if any(configuration.roundup_power2_divisions) else None
        )
        self._expandable = configuration.expandable_segments
        self._max_split = configuration.max_split_size_bytes
        self._plain_search = self._max_split is None and not self._expandable

    # The two functions below run for every tensor of the simulated program, so they spell out what they could call.

    def malloc(self, size_bytes: int, stream: int = 0) -> Block:
        """A block for `size_bytes` (> 0) on `stream`. Raises OutOfDeviceMemory."""
        if self._has_pending and not self._private.routes:
            self.process_events()
        if self._divisions is not None:
            size = round_size(size_bytes, self._divisions)
        elif size_bytes > MIN_BLOCK_BYTES:
            size = (size_bytes + 511) & -512
        else:
            size = MIN_BLOCK_BYTES
        if size_bytes <= 0:
            raise ValueError(f"cannot allocate {size_bytes} bytes: PyTorch asks its allocator for 1 byte or more")
        is_small = size <= SMALL_REQUEST_BYTES
        pool = self._small if is_small else self._large
        if self._private.routes:
            pool = self._private.route(stream, is_small) or pool

        free = pool.free.get(stream)
        block: Block | None = None
        if self._plain_search and free is not None:
            pool.searches += 1
            keys = free.keys
            index = bisect_left(keys, size << ADDRESS_BITS)
            if index < len(keys):
                del keys[index]
                block = free.blocks.pop(index)
        if block is None:
            block = self._search_or_grow(pool, stream, size, size_bytes)

        remaining_bytes = block.size_bytes - size
        was_split = block.previous is not None or block.next is not None
        if remaining_bytes and (
            remaining_bytes >= MIN_BLOCK_BYTES
            if is_small or self._expandable
            else remaining_bytes > SMALL_REQUEST_BYTES and (self._max_split is None or size < self._max_split)
        ):
            rest = block
            block = Block(rest.address, size, stream, pool)
            previous = rest.previous
            if previous is not None:
                block.previous = previous
                previous.next = block
            block.next = rest
            rest.previous = block
            rest.address += size
            rest.size_bytes = remaining_bytes
            pool.add(rest)
            if rest.expandable is not None:
                block.expandable = rest.expandable
            elif was_split:
                self.statistics.change_inactive_split(0, -size, is_small)
            else:
                self.statistics.change_inactive_split(1, remaining_bytes, is_small)
        elif was_split and block.expandable is None:
            self.statistics.change_inactive_split(-1, -block.size_bytes, is_small)

        size = block.size_bytes
        block.allocated = True
        block.requested_bytes = size_bytes
        self._active[block.address] = block
        traffic = pool.traffic
        traffic.allocated_blocks += 1
        traffic.allocated_bytes += size
        traffic.requested_bytes += size_bytes
        self.allocated_bytes += size
        self._rising = True
        if self._max_split is not None and size >= self._max_split:
            self.statistics.oversize_allocations.add(1)
        if self._observer is not None:
            self._observer("alloc", block.address, size, size_bytes, stream)
        return block

    def free(self, block: Block) -> None:
        """Frees a block. It is cached at once, or when the streams of `record_stream` are done with it."""
        if not block.allocated:
            raise ValueError(f"{block!r} is not allocated: it was freed before")
        if self._rising:
            self.statistics.note_peaks()
            self._rising = False
        block.allocated = False
        size, requested = block.size_bytes, block.requested_bytes
        traffic = block.pool.traffic
        traffic.freed_blocks += 1
        traffic.freed_bytes += size
        traffic.freed_requested_bytes += requested
        self.allocated_bytes -= size
        if self._max_split is not None and size >= self._max_split:
            self.statistics.oversize_allocations.subtract(1)
        if self._observer is not None:
            self._observer("free", block.address, size, requested, block.stream)
        if block.stream_uses:
            traffic.pending_blocks += 1
            traffic.pending_bytes += size
            traffic.pending_requested_bytes += requested
            self._has_pending = True
            self._pending.add(block, bool(self._private.routes))
        else:
            self._cache(block)

    def _cache(self, block: Block) -> None:
        """Puts a block that nobody uses any more among the free ones, together with its free neighbours."""
        del self._active[block.address]
        pool, previous, following = block.pool, block.previous, block.next
        change_blocks, change_bytes = 0, 0
        if previous is not None and not previous.allocated:
            gained_bytes = merge(block, previous)
            if gained_bytes:
                change_blocks, change_bytes = -1, -gained_bytes
        if following is not None and not following.allocated:
            gained_bytes = merge(block, following)
            if gained_bytes:
                change_blocks -= 1
                change_bytes -= gained_bytes
        pool.add(block)
        if block.previous is not None or block.next is not None:
            change_blocks += 1
            change_bytes += block.size_bytes
        if block.expandable is None and (change_blocks or change_bytes):
            self.statistics.change_inactive_split(change_blocks, change_bytes, pool.is_small)

    def _complete_free(self, block: Block) -> None:
        traffic = block.pool.traffic
        traffic.pending_blocks -= 1
        traffic.pending_bytes -= block.size_bytes
        traffic.pending_requested_bytes -= block.requested_bytes
        self._cache(block)

    def process_events(self) -> None:
        """Completes the frees whose streams are done with the block; every allocation begins with this."""
        self.statistics.note_peaks()
        self._pending.process()
        self._has_pending = self._pending.any

    def _search_or_grow(self, pool: BlockPool, stream: int, size: int, requested_bytes: int) -> Block:
        """PyTorch's order: cache, free callbacks, garbage collection, device, release some, release all, give up."""
        block = None if self._plain_search else find_block(pool, stream, size, self.configuration)
        if block is None and self._run_free_callbacks():
            block = find_block(pool, stream, size, self.configuration)
        if block is not None:
            return block
        if self._counts_age:
            self._segments.collect_garbage(self._large)
        wanted_bytes = segment_size(size, self.configuration.large_segment_size_bytes)
        block = self._segments.allocate(pool, stream, size, wanted_bytes)
        if block is None and self._segments.release_oversize(pool, stream, size):
            block = self._segments.allocate(pool, stream, size, wanted_bytes)
        if block is None and not self._private.routes:
            self._release_cached()
            self.statistics.num_alloc_retries += 1
            block = self._segments.allocate(pool, stream, size, wanted_bytes)
        if block is None:
            self.statistics.num_ooms += 1
            raise self._out_of_memory(requested_bytes, wanted_bytes)
        return block

    def _run_free_callbacks(self) -> bool:
        freed = [callback() for callback in self.free_callbacks]  # all of them run, also after one has freed something
        return any(freed)

    def _out_of_memory(self, requested_bytes: int, wanted_bytes: int) -> OutOfDeviceMemory:
        return OutOfDeviceMemory(
            requested_bytes=requested_bytes,
            attempted_bytes=wanted_bytes,
            allocated_bytes=self.allocated_bytes,
            reserved_bytes=self.reserved_bytes,
            free_bytes=self.device.free_bytes,
            total_bytes=self.device.usable_bytes,
            outside_bytes=self.device.outside_bytes,
            limit_bytes=self._segments.limit_bytes,
            private_pools_bytes=self._private.cached_bytes,
        )

    def _release_cached(self, pool_id: PoolId = DEFAULT_POOL) -> None:
        self.synchronize_events()
        if pool_id == DEFAULT_POOL:
            self._segments.release_unused(self._large)
            self._segments.release_unused(self._small)
        for private in list(self._private.by_id.values()):
            if private.use_count == 0 or private.id == pool_id:
                self._segments.release_unused(private.small)
                self._segments.release_unused(private.large)
        self._private.forget_empty()

    def record_stream(self, block: Block, stream: int) -> None:
        """`stream` uses the block too: after its free it is not reused before `stream` is done with what it has now."""
        if stream == block.stream:
            return
        if block.stream_uses is None:
            block.stream_uses = set()
        block.stream_uses.add(stream)
        if self._private.routes:
            self._pending.note_capture_use(block, stream)

    def synchronize_events(self) -> None:
        """Completes all frees that wait for other streams, as after `torch.cuda.synchronize`."""
        self.statistics.num_sync_all_streams += 1
        self.statistics.note_peaks()
        self._pending.synchronize()
        self._has_pending = False

    def empty_cache(self, pool_id: PoolId = DEFAULT_POOL) -> None:
        """As `torch.cuda.empty_cache`: returns the segments in which nothing is in use."""
        self._release_cached(pool_id)

    def begin_allocate_to_pool(self, pool_id: PoolId, stream_filter: StreamFilter = lambda stream: True) -> None:
        """From now on allocations on streams that pass the filter come from a private pool (a CUDA graph's capture)."""
        self._private.begin(pool_id, stream_filter)

    def end_allocate_to_pool(self, pool_id: PoolId) -> None:
        self._private.end(pool_id)

    def release_pool(self, pool_id: PoolId) -> None:
        """A graph that used the private pool is gone; without users its memory is returned like any cached memory."""
        self._private.release(pool_id)
