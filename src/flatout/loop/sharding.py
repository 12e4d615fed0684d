"""Which samples of an epoch make up which batch on which rank. Arithmetic only, no torch.

The samples of an epoch, in the order of the sampler, are cut into *global batches* of `ranks * batch_size`. Rank r
takes the r-th part of each, so that N ranks see together what one process sees with a batch N times as large. What is
left for the last global batch is spread as evenly as possible. Where fewer samples are left than ranks, a rank without
one repeats a sample that counts for nothing (weight 0): all ranks have to take part in the exchange of gradients.
"""

from __future__ import annotations

from dataclasses import dataclass


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
