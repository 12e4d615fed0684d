"""What an allocator holds, and what can be read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flatout.virtual.allocator.blocks import Block
from flatout.virtual.allocator.configuration import AllocatorConfiguration
from flatout.virtual.allocator.device import DeviceMemory
from flatout.virtual.allocator.pools import DEFAULT_POOL, BlockPool
from flatout.virtual.allocator.private_pools import PrivatePools
from flatout.virtual.allocator.segments import Observer, Segments
from flatout.virtual.allocator.snapshot import list_segments
from flatout.virtual.allocator.statistics import Statistics


class AllocatorState:
    """Pools, segments and statistics of one device.

    `allocated_bytes` is the present sum of the sizes of allocated blocks. It is for reading.
    """

    def __init__(self, device: DeviceMemory, configuration: AllocatorConfiguration, observer: Observer | None) -> None:
        self.configuration = configuration
        self.device = device
        self.statistics = Statistics()
        self.allocated_bytes = 0
        self.free_callbacks: list[Callable[[], bool]] = []
        """Called when no cached block fits; one that returns True has freed something, and the search is repeated."""
        self._segments = Segments(device, self.statistics, configuration)
        self._small = BlockPool(True, self.statistics.small)
        self._large = BlockPool(False, self.statistics.large)
        self._private = PrivatePools(self.statistics.small, self.statistics.large)
        self._active: dict[int, Block] = {}
        self._counts_age = False
        self.observer = observer
        if configuration.per_process_memory_fraction is not None:
            self.set_memory_fraction(configuration.per_process_memory_fraction)

    @property
    def observer(self) -> Observer | None:
        """Told of each alloc, free, segment_alloc and segment_free; a free is told when it is asked for."""
        return self._observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._observer = observer
        self._segments.observer = observer

    def set_memory_fraction(self, fraction: float) -> None:
        """As `torch.cuda.set_per_process_memory_fraction`: limits reserved memory to a part of the total."""
        self._segments.limit_bytes = int(fraction * self.device.usable_bytes)
        self._counts_age = self.configuration.garbage_collection_threshold > 0.0

    def release_segment(self, address: int) -> bool:
        """Returns the segment at this address if nothing in it is in use; whether it did."""
        for block in self._cached_blocks():
            if block.address == address and not block.is_split and block.expandable is None:
                self._segments.release(block)
                return True
        return False

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.reserved_bytes

    @property
    def peak_allocated_bytes(self) -> int:
        return self.statistics.peak_allocated_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        return self.statistics.tallies["reserved_bytes"]["all"].peak

    def reset_peaks(self) -> None:
        """As `torch.cuda.reset_peak_memory_stats`."""
        self.statistics.reset_peaks()

    def reset_accumulated(self) -> None:
        """As `torch.cuda.reset_accumulated_memory_stats`."""
        self.statistics.reset_accumulated()

    def stats(self) -> dict[str, Any]:
        """In the shape and with the keys of `torch.cuda.memory_stats_as_nested_dict`."""
        return self.statistics.as_nested_dict(self.configuration.max_split_size_bytes)

    def segments(self, device_index: int = 0) -> list[dict[str, Any]]:
        """In the shape of `torch.cuda.memory_snapshot`."""
        return list_segments([*self._active.values(), *self._cached_blocks()], device_index)

    def _cached_blocks(self) -> list[Block]:
        pools = [self._small, self._large]
        for private in self._private.by_id.values():
            pools += [private.small, private.large]
        return [block for pool in pools for block in pool.cached_blocks()]

    def restore(self, segments: Iterable[Mapping[str, Any]]) -> dict[int, Block]:
        """Takes over the segments that `segments` or `torch.cuda.memory_snapshot` listed elsewhere.

        Blocks that waited for a stream come back as allocated. Returns the allocated blocks by address. Raises
        ValueError for expandable segments and for blocks that do not cover their segment.
        """
        for segment in segments:
            self._adopt(segment)
        self.statistics.reset_peaks()
        return dict(self._active)

    def _adopt(self, segment: Mapping[str, Any]) -> None:
        address, size_bytes, stream = segment["address"], segment["total_size"], segment["stream"]
        if segment.get("is_expandable"):
            raise ValueError(f"the segment at 0x{address:x} is expandable; only segments of fixed size can be restored")
        if sum(entry["size"] for entry in segment["blocks"]) != size_bytes:
            raise ValueError(f"the blocks of the segment at 0x{address:x} do not cover its {size_bytes} bytes")
        is_small = segment["segment_type"] == "small"
        pool_id = tuple(segment.get("segment_pool_id", DEFAULT_POOL))
        pool = self._small if is_small else self._large
        if pool_id != DEFAULT_POOL:
            pool = self._private.obtain((pool_id[0], pool_id[1]), is_small)
        self.device.claim(address, size_bytes)
        self._segments.adopt(address, size_bytes, stream, pool)
        previous: Block | None = None
        for entry in segment["blocks"]:
            block = Block(address, entry["size"], stream, pool)
            block.requested_bytes = entry.get("requested_size", entry["size"])
            block.splice(previous, None)
            if entry["state"] == "inactive":
                pool.add(block)
                if entry["size"] < size_bytes:
                    self.statistics.change_inactive_split(1, entry["size"], is_small)
            else:
                block.allocated = True
                self._active[address] = block
                pool.traffic.allocated_blocks += 1
                pool.traffic.allocated_bytes += block.size_bytes
                pool.traffic.requested_bytes += block.requested_bytes
                self.allocated_bytes += block.size_bytes
            previous = block
            address += block.size_bytes
