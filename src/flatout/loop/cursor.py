"""Where the training is: the epoch, the batch in hand. The loaders write it, the loop reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatout.loop.sharding import EpochPlan


@dataclass(frozen=True)
class Batch:
    """What a prepared loader says of the batch that it has just handed out.

    `samples`: how many samples of the batch count on this rank. It is less than the batch's length where samples were
    repeated so that every rank has a batch; None where nobody can say (a batch without tensors).
    `plan`: the sizes of all batches of the epoch, where they are known before the epoch starts.
    """

    number: int
    samples: int | None
    last: bool
    plan: EpochPlan | None = None


@dataclass
class Cursor:
    """The place in the training, in epochs and batches.

    `batch` is None outside a loop over a prepared loader. `even`: an evaluation gives every rank equally many batches,
    with repeats that count for nothing; else no sample is handed out twice and a rank may have a batch less.
    """

    epoch: int = 0
    batch: Batch | None = None
    evaluating: bool = False
    even: bool = False
