"""Which samples of an epoch make up which batch on which rank. Arithmetic only, no torch.

The samples of an epoch, in the order of the sampler, are cut into *global batches* of `ranks * batch_size`. Rank r
takes the r-th part of each, so that N ranks see together what one process sees with a batch N times as large. What is
left for the last global batch is spread as evenly as possible. Where fewer samples are left than ranks, a rank without
one repeats a sample that counts for nothing (weight 0): all ranks have to take part in the exchange of gradients.

Batches that are made by the user's own batch sampler are not cut but dealt out: rank r takes the batches r, r + N, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class EpochPlan:
    """The sizes of an epoch's batches, known before it starts.

    `samples`: what the sampler yields in one epoch, over all ranks. `batch_size`: a rank's batch.
    """

    samples: int
    batch_size: int
    ranks: int = 1
    drop_last: bool = False

    @property
    def batches(self) -> int:
        """How many batches each rank gets."""
        whole, rest = divmod(self.samples, self.batch_size * self.ranks)
        return whole + bool(rest and not self.drop_last)

    def total_in(self, batch: int) -> int:
        """The samples that batch number `batch` holds over all ranks."""
        size = self.batch_size * self.ranks
        return min(size, self.samples - batch * size)

    def part_of(self, batch: int, rank: int) -> tuple[int, int]:
        """Rank `rank`'s part of global batch `batch`, as a half-open range of positions in the epoch's order."""
        total = self.total_in(batch)
        start = batch * self.batch_size * self.ranks
        return start + total * rank // self.ranks, start + total * (rank + 1) // self.ranks


@dataclass(frozen=True)
class DealtPlan:
    """The sizes of batches that are dealt out to the ranks as they are; `sizes` in the order of the batch sampler."""

    sizes: tuple[int, ...]
    ranks: int = 1

    @property
    def samples(self) -> int:
        """The samples of the epoch, over all ranks."""
        return sum(self.sizes)

    @property
    def batches(self) -> int:
        """How many batches each rank gets."""
        return -(-len(self.sizes) // self.ranks)

    def total_in(self, batch: int) -> int:
        """The samples that batch number `batch` holds over all ranks."""
        return sum(self.sizes[batch * self.ranks : (batch + 1) * self.ranks])


Plan = EpochPlan | DealtPlan


class Share(NamedTuple):
    """One rank's batch: the indices to fetch, and how many of its samples count (None: seen when it is fetched)."""

    indices: Any
    samples: int | None


def cut(order: Sequence[Any], plan: EpochPlan, rank: int, *, fill: bool) -> list[Share]:
    """Rank `rank`'s batches of an epoch whose samples come in this order.

    `fill`: as many batches on every rank, if need be with a sample that counts for nothing. Without, no sample occurs
    twice, and a rank may have a batch less than others.
    """
    shares = []
    for batch in range(plan.batches):
        start, end = plan.part_of(batch, rank)
        if end > start:
            shares.append(Share(list(order[start:end]), end - start))
        elif fill:
            shares.append(Share([order[batch * plan.batch_size * plan.ranks]], 0))
    return shares


def deal(batches: Sequence[Any], sizes: Sequence[int | None], rank: int, ranks: int, *, fill: bool) -> list[Share]:
    """Rank `rank`'s share of batches that are dealt out whole; `fill` as in `cut`."""
    shares = []
    for start in range(0, len(batches), ranks):
        if start + rank < len(batches):
            shares.append(Share(batches[start + rank], sizes[start + rank]))
        elif fill:
            shares.append(Share(batches[start], 0))
    return shares
