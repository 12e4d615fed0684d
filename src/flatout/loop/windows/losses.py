"""Losses that cannot be trained on: without a graph, not a single number, or not a number at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from flatout.errors import TrainingError, UsageError
from flatout.loop.later import Later


class Where(NamedTuple):
    """The place of a loss in the training. `batch` None: not from a prepared loader."""

    epoch: int
    batch: int | None
    micro_batch: int

    def __str__(self) -> str:
        place = f"epoch {self.epoch}" + (f", batch {self.batch}" if self.batch is not None else "")
        return f"{place} (step {self.micro_batch})"


def check_kind(loss: Any, call: str = "loop.backward(loss)") -> None:
    """Raises `UsageError` for what has no backward pass."""
    if not isinstance(loss, torch.Tensor):
        raise UsageError(f"{call}: takes a tensor, not a {type(loss).__name__}")
    if loss.numel() != 1:
        raise UsageError(
            f"{call}: the loss has shape {tuple(loss.shape)}, and a backward pass starts from one number; "
            "give its mean, or loop.backward(loss.sum(), weight=loss.numel(), reduction='sum')"
        )
    if not loss.requires_grad:
        raise UsageError(
            f"{call}: the loss has no graph to go back through; was it computed under no_grad, detached, "
            "or from parameters that are all frozen?"
        )


class NaNWatch:
    """Raises `TrainingError` at a loss that is NaN: at once on a CPU, some steps later on a GPU."""

    def __init__(self, later: Later | None = None) -> None:
        self._later = later or Later()

    def see(self, loss: torch.Tensor, where: Callable[[], Where]) -> None:
        """Take in a loss without its graph."""
        if loss.is_cpu:
            number = loss.item()
            if number != number:
                raise TrainingError(_message(where(), ""))
            return
        self.see_later(loss, where())

    def see_later(self, loss: torch.Tensor, where: Where) -> None:
        """Take in a loss that is looked at when it has arrived."""
        self._later.add(loss.float(), where)
        self._look(self._later.arrived(), where)

    def settle(self, now: Where) -> None:
        """Look at all losses that were not looked at yet. Waits for the device."""
        self._look(self._later.all(), now)

    def _look(self, numbers: Any, now: Where) -> None:
        for number, where in numbers:
            if number != number:
                raise TrainingError(_message(where, f" (noticed at step {now.micro_batch}: the host does not wait)"))


def _message(where: Where, later: str) -> str:
    return (
        f"loop.backward(loss): the loss is NaN in {where}{later}; try a lower learning rate, Loop(clip_norm=1.0), or "
        "look at this batch; Loop(nan='ignore') goes on"
    )
