"""Where the batches of one pass come from: indexed data in an order, or a stream that has to be read to be known."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.utils.data import BatchSampler
from torch.utils.data.distributed import DistributedSampler

from flatout.errors import CheckpointError, UsageError
from flatout.loop.distributed import Ranks
from flatout.loop.order import Order, draws_at_once, size_of
from flatout.loop.rebuilt import Rebuilt
from flatout.loop.seeding import Streams, Task, mix, restore_rng
from flatout.loop.sharding import DealtPlan, EpochPlan, Plan, Share, cut, deal


class Feed(Protocol):
    """The host's side of a pass: `fetch` gives the next batch and how many of its samples count."""

    start: dict[str, Any]
    base: int
    plan: Plan | None
    batches: int | None

    def fetch(self) -> tuple[Any, int | None]: ...
    def state(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Seeds:
    """The seed that a DataLoader draws at the start of a pass, drawn by us at the same place of the same stream.

    A loader whose workers persist draws it once only; later passes make theirs from that one.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator
        self.before = torch.empty(0)

    def draw(self) -> int:
        """The seed. `before` is then the state that it was drawn from."""
        self.before = (torch.default_generator if self._generator is None else self._generator).get_state()
        return int(torch.empty((), dtype=torch.int64).random_(generator=self._generator).item())

    def peek(self) -> None:
        """Note the state without drawing."""
        self.before = (torch.default_generator if self._generator is None else self._generator).get_state()


class IndexedFeed:
    """Batches of data that have indices.

    `base`: the seed of an earlier pass to go on from, None to draw one. `fill`: every rank gets as many batches.
    `saved`: a pass to resume, as `Pass.state` gave it.
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
        exchange = many and not _is_sequential(source)
        self.start = saved["start"] if saved else streams.capture()
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
            streams,
            watch=not many and not draws_at_once(sampler),
            wrap=functools.partial(_task, self.base, ranks) if source.num_workers else None,
        )
        if saved:
            self.order.replay(saved["feed"], saved["handed"])
        self._broke = False
        self._iterator, self._release = rebuilt.iterate(self.order, seeds.before)

    def _own_shares(self, asked: Iterator[Any], sampler: Any) -> tuple[Iterator[Share], Plan | None, int | None]:
        """Everything that the sampler gives, as it is asked."""
        source, count = self._source, self._ranks.count
        plan = plan_of(source, 1 if not self._own_shards else count)
        if source.batch_sampler is None:
            return (Share(index, None) for index in asked), None, _length(sampler)
        if self._own_shards and self._distinct and count > 1 and isinstance(source.sampler, DistributedSampler):
            asked_for = [index for indices in asked for index in indices]
            kept = _without_repeats(source.sampler, asked_for)
            size = source.batch_size or 1
            shares = [Share(kept[i : i + size], len(kept[i : i + size])) for i in range(0, len(kept), size)]
            if self._fill and len(shares) * size < len(asked_for):
                shares.append(Share(asked_for[:1], 0))
            return iter(shares), plan, len(shares)
        return (Share(indices, size_of(indices)) for indices in asked), plan, _length(sampler)

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


class StreamFeed:
    """Batches of data that have no indices, as `source` gives them.

    With many ranks each takes batch number `rank` of every `ranks.count`, unless the stream is `sharded` already.
    Resuming reads again what was read before, unless the source can save its own place (`state_dict`).
    """

    def __init__(
        self,
        source: Any,
        rebuilt: Rebuilt | None,
        streams: Streams,
        ranks: Ranks,
        *,
        base: int | None,
        fill: bool,
        sharded: bool,
        saved: dict[str, Any] | None,
        say: Callable[[str], None],
    ) -> None:
        self.start = saved["start"] if saved else streams.capture()
        if saved:
            streams.restore(self.start)
        self.plan: Plan | None = None
        self._ranks = ranks
        self._dealt = ranks.count > 1 and not sharded
        self._fill = fill and ranks.count > 1
        self._last: tuple[Any] | None = None
        self._release: Callable[[bool], None] = lambda broke: None
        self._broke = False
        self._placed = places_itself(source, rebuilt)
        found = saved["feed"].get("source") if saved else None
        if found is not None and self._placed is not None:
            self._placed.load_state_dict(copy.deepcopy(found))
        self.base = 0 if base is None else base
        if rebuilt is None:
            self._iterator = iter(source)
        else:
            seeds = Seeds(source.generator)
            if base is None:
                self.base = seeds.draw()
            else:
                seeds.peek()
            self._iterator, self._release = rebuilt.iterate(iter(()), seeds.before)
        trusted = rebuilt is None or source.num_workers == 0
        length = _length(source) if trusted and not self._fill else None
        self.batches = length if length is None or not self._dealt else len(range(ranks.rank, length, ranks.count))
        if saved and saved["handed"] and (found is None or self._placed is None):
            self._read_again(saved["handed"], say)

    def _read_again(self, handed: int, say: Callable[[str], None]) -> None:
        say(f"resuming: reading {handed} batches again, for these data have no indices to skip by")
        for number in range(handed):
            try:
                self._last = (self._round()[0],)
            except StopIteration:
                if self._ranks.count == 1:
                    raise CheckpointError(
                        f"resuming: the saved run had taken {handed} batches of this loader, but it ends after "
                        f"{number}; resume with the same data and batch size"
                    ) from None
                return

    def _round(self) -> tuple[Any, int | None]:
        """The next batch for this rank."""
        try:
            return self._read()
        except StopIteration:
            raise
        except BaseException:
            self._broke = True
            raise

    def _read(self) -> tuple[Any, int | None]:
        if not self._dealt:
            batch = next(self._iterator)
            return batch, count_samples(batch)
        read = [batch for _, batch in zip(range(self._ranks.count), self._iterator)]
        if len(read) > self._ranks.rank:
            return read[self._ranks.rank], count_samples(read[self._ranks.rank])
        if read and self._fill:
            return read[0], 0
        raise StopIteration

    def fetch(self) -> tuple[Any, int | None]:
        """The next batch and how many of its samples count. Where all ranks must take part they end together."""
        if not self._fill:
            return self._round()
        try:
            mine: tuple[Any, int | None] | None = self._round()
        except StopIteration:
            mine = None
        first = self._last is None
        if first and mine is None and True in self._ranks.gather(False):
            raise UsageError("iterating over a prepared loader: this rank's part of the data is empty")
        if first and mine is not None and False in self._ranks.gather(True):
            raise UsageError("iterating over a prepared loader: another rank's part of the data is empty")
        if not first and not self._ranks.any(mine is not None):
            raise StopIteration
        if mine is None:
            if self._last is None:
                raise StopIteration
            return self._last[0], 0
        self._last = (mine[0],)
        return mine

    def state(self) -> dict[str, Any]:
        """The source's own place, where it keeps one."""
        return {} if self._placed is None else {"source": copy.deepcopy(self._placed.state_dict())}

    def close(self) -> None:
        """Let the workers go."""
        self._iterator = iter(())
        self._release(self._broke)


def _task(base: int, ranks: Ranks, indices: Any, number: int) -> Task:
    """Batch number `number` of this rank for a worker, under a seed that no other batch of the pass has."""
    return Task(indices, mix(base, number * ranks.count + ranks.rank))


def shards_itself(source: Any) -> bool:
    """Whether the user's own sampler already gives each rank a part."""
    samplers = (getattr(source, "sampler", None), getattr(source, "batch_sampler", None))
    return any(isinstance(s, DistributedSampler) or hasattr(s, "num_replicas") for s in samplers)


def plan_of(source: Any, ranks: int) -> EpochPlan | None:
    """The sizes of an epoch's batches; None where they are not known before it starts."""
    if source.batch_size is None or type(source.batch_sampler) is not BatchSampler:
        return None
    length = _length(source.sampler)
    if length is None:
        return None
    return EpochPlan(length * (ranks if shards_itself(source) else 1), source.batch_size, ranks, source.drop_last)


def length_of(source: Any, *, without_repeats: bool) -> int:
    """The batches that the user's loader gives; `without_repeats`: those of a DistributedSampler not counted."""
    if without_repeats and isinstance(getattr(source, "sampler", None), DistributedSampler):
        kept = _without_repeats(source.sampler, list(range(len(source.sampler))))
        return -(-len(kept) // (source.batch_size or 1))
    return len(source)


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None


def _is_sequential(source: Any) -> bool:
    from torch.utils.data import SequentialSampler

    return type(source.sampler) is SequentialSampler and type(source.batch_sampler) in (BatchSampler, type(None))


def _without_repeats(sampler: Any, indices: list[Any]) -> list[Any]:
    """A DistributedSampler's indices without those that it repeats so that all ranks have as many."""
    real = len(range(sampler.rank, len(sampler.dataset), sampler.num_replicas))
    return indices if sampler.drop_last else indices[:real]


def places_itself(source: Any, rebuilt: Rebuilt | None) -> Any:
    """What saves the stream's place itself: the loader, or its dataset in this process."""
    keeper = source if rebuilt is None else source.dataset if source.num_workers == 0 else None
    able = hasattr(keeper, "state_dict") and hasattr(keeper, "load_state_dict")
    return keeper if able else None


def count_samples(batch: Any) -> int | None:
    """The samples in a batch, by the first dimension of its first tensor; None where there is none to tell.

    A list inside the batch counts by its length: images of different sizes come so.
    """
    if isinstance(batch, torch.Tensor):
        return batch.size(0) if batch.dim() else None
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
    for part in parts:
        if isinstance(part, torch.Tensor) and part.dim():
            return part.size(0)
        if isinstance(part, list | tuple):
            return len(part)
        if isinstance(part, Mapping):
            return count_samples(part)
    return None
