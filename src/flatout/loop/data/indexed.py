"""Batches of data that have indices: the sampler's order, or this rank's part of it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data.distributed import DistributedSampler

from flatout.errors import UsageError
from flatout.loop.data.feed import (
    Seeds,
    count_samples,
    is_sequential,
    length_or_none,
    plan_of,
    shards_itself,
    without_repeats_of,
)
from flatout.loop.data.order import Order, is_pytorchs, size_of
from flatout.loop.data.rebuilt import Rebuilt
from flatout.loop.data.seeding import Task, mix
from flatout.loop.data.sharding import DealtPlan, EpochPlan, Plan, Share, cut, deal
from flatout.loop.data.streams import Streams, restore_rng
from flatout.loop.processes.distributed import Ranks


class IndexedFeed:
    """Batches of data that have indices.

    `base`: the seed of an earlier pass to go on from, None to draw one. `fill`: every rank gets as many batches.
    `distinct`: what a DistributedSampler repeats does not count. `saved`: a pass to resume, as `Pass.state` gave it.
    """

    def __init__(
        self,
        source: Any,
        rebuilt: Rebuilt,
        streams: Streams,
        ranks: Ranks,
        *,
        base: int | None,
        fill: bool,
        saved: dict[str, Any] | None,
        distinct: bool = False,
    ) -> None:
        self._source = source
        self._fill = fill
        self._distinct = distinct
        self._ranks = ranks
        self._own_shards = shards_itself(source)
        many = ranks.count > 1 and not self._own_shards
        sampler = source.sampler if source.batch_sampler is None else source.batch_sampler
        exchange = many and not is_sequential(source)
        known = is_pytorchs(sampler)
        self.start = saved["start"] if saved else streams.capture(only_torch=known and not many)
        foreign = None
        if saved:
            streams.restore(self.start)
        elif exchange:
            foreign = None if ranks.is_first else self.start["global"]
            self.start = ranks.broadcast(self.start)
            streams.restore(self.start)
        seeds = Seeds(source.generator)
        asked = iter(sampler)
        if base is None:
            self.base = seeds.draw()
            if source.num_workers:
                asked = iter(sampler)  # PyTorch asks twice with workers
        else:
            self.base = base
            seeds.peek()
        if many:
            shares, self.plan = self._all_shares(list(asked), verify=exchange and not saved)
            self.batches: int | None = len(shares)
            given = iter(shares)
        else:
            given, self.plan, self.batches = self._own_shares(asked, sampler)
        if foreign is not None:
            restore_rng(foreign)
        self.order = Order(
            given,
            watch=not many and not known,
            only_torch=known,
            wrap=functools.partial(_task, self.base, ranks) if source.num_workers else None,
        )
        if saved:
            self.order.replay(saved["feed"], saved["handed"])
        self._broke = False
        self._seeds = seeds.before
        self._rebuilt = rebuilt
        self._iterator: Iterator[Any] | None = None
        self._release: Callable[[bool], None] = lambda broke: None

    def begin(self) -> None:
        """Start the workers, which take their first batches from the order at once."""
        if self._iterator is None:
            self._iterator, self._release = self._rebuilt.iterate(self.order, self._seeds)

    def _own_shares(self, asked: Iterator[Any], sampler: Any) -> tuple[Iterator[Share], Plan | None, int | None]:
        """Everything that the sampler gives, as it is asked."""
        source, count = self._source, self._ranks.count
        plan = plan_of(source, 1 if not self._own_shards else count)
        if source.batch_sampler is None:
            return (Share(index, None) for index in asked), None, length_or_none(sampler)
        if self._own_shards and self._distinct and count > 1 and isinstance(source.sampler, DistributedSampler):
            asked_for = [index for indices in asked for index in indices]
            kept = without_repeats_of(source.sampler, asked_for)
            size = source.batch_size or 1
            shares = [Share(kept[i : i + size], len(kept[i : i + size])) for i in range(0, len(kept), size)]
            if self._fill and len(shares) * size < len(asked_for):
                shares.append(Share(asked_for[:1], 0))
            return iter(shares), plan, len(shares)
        return (Share(indices, size_of(indices)) for indices in asked), plan, length_or_none(sampler)

    def _all_shares(self, asked: list[Any], *, verify: bool) -> tuple[list[Share], Plan | None]:
        """This rank's part of the epoch, which every rank knows whole."""
        source, ranks = self._source, self._ranks
        if verify:
            digest = hashlib.sha256(repr(asked).encode()).hexdigest()
            if len(set(ranks.gather(digest))) > 1:
                raise UsageError(
                    f"iterating over a prepared loader: its {type(source.sampler).__name__} gives another order on "
                    "each rank; let it draw from PyTorch's, NumPy's or Python's random numbers or a generator that is "
                    "an attribute of it, or give a sampler that shards itself (DistributedSampler)"
                )
        if plan_of(source, ranks.count) is not None:
            order = [index for indices in asked for index in indices]
            plan = EpochPlan(len(order), source.batch_size, ranks.count, source.drop_last)
            return cut(order, plan, ranks.rank, fill=self._fill), plan
        sizes = [size_of(indices) if source.batch_sampler is not None else None for indices in asked]
        known = [size for size in sizes if size is not None]
        dealt = DealtPlan(tuple(known), ranks.count) if len(known) == len(sizes) else None
        return deal(asked, sizes, ranks.rank, ranks.count, fill=self._fill), dealt

    def fetch(self) -> tuple[Any, int | None]:
        """The next batch and how many of its samples count."""
        assert self._iterator is not None
        try:
            batch = next(self._iterator)
        except StopIteration:
            raise
        except BaseException:
            self._broke = True  # a worker may have died
            raise
        samples = self.order.samples()
        return batch, count_samples(batch) if samples is None else samples

    def state(self) -> dict[str, Any]:
        """Where the order is."""
        return self.order.state()

    def close(self) -> None:
        """Let the workers go."""
        self._iterator = iter(())
        self._release(self._broke)


def _task(base: int, ranks: Ranks, indices: Any, number: int) -> Task:
    """Batch number `number` of this rank for a worker, under a seed that no other batch of the pass has."""
    return Task(indices, mix(base, number * ranks.count + ranks.rank))
