"""Private pools: where allocations go while a CUDA graph is captured or a `torch.cuda.MemPool` is in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flatout.virtual.allocator.pools import BlockPool, PoolId, PrivatePool
from flatout.virtual.allocator.statistics import Traffic

StreamFilter: TypeAlias = Callable[[int], bool]
"""Whether an allocation on this stream belongs to the pool."""


class PrivatePools:
    """All private pools of a device, and which of them take allocations now."""

    def __init__(self, small: Traffic, large: Traffic) -> None:
        self._small = small
        self._large = large
        self.by_id: dict[PoolId, PrivatePool] = {}
        self.routes: list[tuple[PoolId, StreamFilter]] = []

    def begin(self, pool_id: PoolId, stream_filter: StreamFilter) -> None:
        """From now on allocations that pass the filter come from this pool; it is made where it does not exist."""
        if any(pool_id == routed for routed, _ in self.routes):
            raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        pool = self.by_id.get(pool_id)
        if pool is None:
            self.by_id[pool_id] = PrivatePool(pool_id, self._small, self._large)
        else:
            pool.use_count += 1
        self.routes.append((pool_id, stream_filter))

    def obtain(self, pool_id: PoolId, is_small: bool) -> BlockPool:
        """The small or large part of a pool, which is made where it does not exist."""
        pool = self.by_id.get(pool_id)
        if pool is None:
            pool = self.by_id[pool_id] = PrivatePool(pool_id, self._small, self._large)
        return pool.small if is_small else pool.large

    def end(self, pool_id: PoolId) -> None:
        for index, (routed, _) in enumerate(self.routes):
            if routed == pool_id:
                del self.routes[index]
                return
        raise RuntimeError("endAllocatePool: not currently recording to mempool_id")

    def release(self, pool_id: PoolId) -> None:
        """One user (a graph) of the pool is gone; a pool without users may return its memory."""
        pool = self.by_id.get(pool_id)
        if pool is None or pool.use_count == 0:
            raise RuntimeError("releasePool: no pool of this id is in use")
        pool.use_count -= 1

    def route(self, stream: int, is_small: bool) -> BlockPool | None:
        """The private pool that takes an allocation on this stream, or None."""
        for pool_id, stream_filter in self.routes:
            if stream_filter(stream):
                pool = self.by_id[pool_id]
                return pool.small if is_small else pool.large
        return None

    def freeable(self) -> list[PrivatePool]:
        return [pool for pool in self.by_id.values() if pool.use_count == 0]

    def forget_empty(self) -> None:
        """Drops the pools that have neither users nor memory."""
        self.by_id = {
            pool_id: pool for pool_id, pool in self.by_id.items() if pool.use_count > 0 or pool.segment_count > 0
        }

    @property
    def cached_bytes(self) -> int:
        """Bytes that are free inside private pools."""
        return sum(pool.small.cached_bytes + pool.large.cached_bytes for pool in self.by_id.values())
