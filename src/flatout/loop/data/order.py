"""The order of one pass over indexed data: pulled from the sampler as the DataLoader asks, and pulled again to resume.

A sampler is a Python generator whose place cannot be saved. What can be saved is what it starts from (the states of
the random number streams) and how often it was asked; asked as often again, it is in the same place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from flatout.errors import CheckpointError
from flatout.loop.data.sharding import Share
from flatout.loop.data.streams import changed, restore_rng, snapshot

PYTORCHS = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)
"""Samplers that draw from a stream of others only when they are first asked, and from PyTorch's alone."""


class Order:
    """The indices of a pass, batch by batch, for a DataLoader to iterate over.

    `shares`: the batches that the sampler gives. `wrap` makes what the DataLoader gets of the indices and the batch's
    number. `watch`: the sampler may draw from the global streams in the middle of the pass too, in turns with the
    training, so that the states before it does have to be kept (which costs about 90 us a batch). `only_torch`: it
    draws from PyTorch's streams alone.
    """

    def __init__(
        self,
        shares: Iterator[Share],
        *,
        watch: bool,
        wrap: Callable[[Any, int], Any] | None,
        only_torch: bool = False,
    ) -> None:
        self._shares = shares
        self._only_torch = only_torch
        self._watch = watch
        self._wrap = wrap
        self._pulled = 0
        self._given = 0
        self._exhausted = False
        self._draws: dict[int, Any] = {}
        self._kept: deque[Share] = deque()
        self._out: deque[int | None] = deque()

    def __iter__(self) -> Order:
        return self

    def __next__(self) -> Any:
        share = self._kept.popleft() if self._kept else self._pull()
        number = self._given
        self._given += 1
        self._out.append(share.samples)
        return share.indices if self._wrap is None else self._wrap(share.indices, number)

    def _pull(self) -> Share:
        watch = self._watch or self._pulled == 0
        before = snapshot(only_torch=self._only_torch) if watch else {}
        try:
            share = next(self._shares)
        except StopIteration:
            self._exhausted = True
            raise
        finally:
            drawn_from = changed(before, snapshot(only_torch=self._only_torch)) if watch else {}
            if drawn_from:
                self._draws[self._pulled] = drawn_from
        self._pulled += 1
        return share

    def samples(self) -> int | None:
        """How many samples count in the batch that has just come back; batches come back in order."""
        return self._out.popleft()

    def state(self) -> dict[str, Any]:
        """What `replay` needs to know."""
        return {"pulled": self._pulled, "exhausted": self._exhausted, "draws": dict(self._draws)}

    def replay(self, state: dict[str, Any], handed: int) -> None:
        """Pull from a fresh sampler what was pulled before `state` was taken, and go on after `handed` batches."""
        for number in range(state["pulled"] + state["exhausted"]):
            if number in state["draws"]:
                restore_rng(state["draws"][number])
            try:
                self._kept.append(next(self._shares))
            except StopIteration:
                if number < state["pulled"]:
                    raise CheckpointError(
                        f"resuming: the saved run had taken {state['pulled']} batches from the sampler, this one ends "
                        f"after {number}; resume with the same data, sampler and batch size"
                    ) from None
        for _ in range(min(handed, len(self._kept))):
            self._kept.popleft()
        self._pulled, self._given, self._exhausted = state["pulled"], handed, state["exhausted"]
        self._draws = dict(state["draws"])


def is_pytorchs(sampler: Any) -> bool:
    """Whether this sampler draws from PyTorch's streams alone, and only when it is first asked."""
    if type(sampler) is BatchSampler:
        return type(sampler.sampler) in PYTORCHS
    return type(sampler) in PYTORCHS


def size_of(indices: Any) -> int | None:
    """The number of indices in a batch of them; None where it does not say."""
    try:
        return len(indices)
    except TypeError:
        return None
