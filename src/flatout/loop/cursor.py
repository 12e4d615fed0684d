"""Where the training is: the epoch, the batch in hand. The loaders write it, the loop reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from flatout.loop.data.sharding import Plan


class Batch(NamedTuple):
    """What a prepared loader says of the batch that it has just handed out.

    `samples`: how many samples of the batch count on this rank. It is less than the batch's length where samples were
    repeated so that every rank has a batch; None where nobody can say (a batch without tensors).
    `plan`: the sizes of all batches of the epoch, where they are known before the epoch starts.
    """

    number: int
    samples: int | None
    last: bool
    plan: Plan | None = None


@dataclass
class Cursor:
    """The place in the training, in epochs and batches.

    `batch` is None outside a loop over a prepared loader; `of_pass` is the pass that it comes from. `even`: an
    evaluation gives every rank equally many batches, with repeats that count for nothing; else no sample is handed out
    twice and a rank may have a batch less. `outermost` and `first` are of the pass that asked last for a batch: whether
    no other pass was under way when it began, and whether it had no batch yet. `when_read` are told of a pass that is
    read to its end, while its last batch is still in hand.
    """

    epoch: int = 0
    batch: Batch | None = None
    of_pass: object | None = None
    evaluating: bool = False
    outermost: bool = True
    first: bool = True
    even: bool = False
    when_read: list[Callable[[object], None]] = field(default_factory=list, repr=False)
    _passes: list[tuple[Any, Batch]] = field(default_factory=list, repr=False)  # under way, the newest last

    def ask(self, owner: object) -> None:
        """`owner`, a pass over a loader, is asked for its next batch."""
        if len(self._passes) == 1 and self._passes[0][0] is owner:  # as nearly always
            self.first, self.outermost = False, True
            return
        self.first = all(known is not owner for known, _ in self._passes)
        self.outermost = not self._passes or self._passes[0][0] is owner

    def announce(self, owner: object, batch: Batch) -> None:
        """`owner`, a pass over a loader, is about to hand `batch` out."""
        entry = (owner, batch)
        for position, (known, _) in enumerate(self._passes):
            if known is owner:
                self._passes[position] = entry
                break
        else:
            self._passes.append(entry)
        self.batch, self.of_pass = batch, owner

    def read(self, owner: object) -> None:
        """`owner` has no more batches, and the body of its last one is through."""
        for tell in self.when_read:
            tell(owner)

    def leave(self, owner: object) -> None:
        """`owner` is over: in hand is the batch of the newest pass that is still under way."""
        self._passes = [entry for entry in self._passes if entry[0] is not owner]
        self.of_pass, self.batch = self._passes[-1] if self._passes else (None, None)
