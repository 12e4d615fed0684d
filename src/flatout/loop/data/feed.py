"""Where the batches of a pass come from, and what can be said of the user's loader beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch.utils.data import BatchSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from flatout.loop.data.sharding import EpochPlan, Plan


class Feed(Protocol):
    """The host's side of a pass: `fetch` gives the next batch and how many of its samples count."""

    start: dict[str, Any]
    base: int
    plan: Plan | None
    batches: int | None

    def begin(self) -> None: ...
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


def shards_itself(source: Any) -> bool:
    """Whether the user's own sampler already gives each rank a part."""
    samplers = (getattr(source, "sampler", None), getattr(source, "batch_sampler", None))
    return any(isinstance(s, DistributedSampler) or hasattr(s, "num_replicas") for s in samplers)


def plan_of(source: Any, ranks: int) -> EpochPlan | None:
    """The sizes of an epoch's batches; None where they are not known before it starts."""
    if source.batch_size is None or type(source.batch_sampler) is not BatchSampler:
        return None
    length = length_or_none(source.sampler)
    if length is None:
        return None
    return EpochPlan(length * (ranks if shards_itself(source) else 1), source.batch_size, ranks, source.drop_last)


def length_or_none(thing: Any) -> int | None:
    """`len(thing)`; None where it has none."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None


def length_of(source: Any, *, without_repeats: bool) -> int:
    """The batches that the user's loader gives; `without_repeats`: those of a DistributedSampler not counted."""
    if without_repeats and isinstance(getattr(source, "sampler", None), DistributedSampler):
        kept = without_repeats_of(source.sampler, list(range(len(source.sampler))))
        return -(-len(kept) // (source.batch_size or 1))
    return len(source)


def is_sequential(source: Any) -> bool:
    """Whether the order is the data's own, so that every rank knows it without being told."""
    return type(source.sampler) is SequentialSampler and type(source.batch_sampler) in (BatchSampler, type(None))


def without_repeats_of(sampler: Any, indices: list[Any]) -> list[Any]:
    """A DistributedSampler's indices without those that it repeats so that all ranks have as many."""
    real = len(range(sampler.rank, len(sampler.dataset), sampler.num_replicas))
    return indices if sampler.drop_last else indices[:real]


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
