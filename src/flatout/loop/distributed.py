"""The processes that train together. One process is the plain case: every exchange gives back what it was given."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    rank: int = 0
    local_rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, value: Any, device: torch.device) -> Any:
        """`value` (a number, or a tensor of any shape) summed over the ranks; a tensor where there is more than one."""
        return value

    def any(self, flag: bool) -> bool:
        """Whether any rank says so."""
        return flag

    def gather(self, value: Any) -> list[Any]:
        """Every rank's object, in order of rank."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """The first rank's object."""
        return value

    def barrier(self) -> None:
        """Wait until every rank is here."""


def join() -> Ranks:
    """Join the processes that torchrun started; alone where it did not."""
    return Ranks()


def wrap(model: nn.Module, ranks: Ranks, device: torch.device, strategy: str) -> nn.Module:
    """`model` so that its gradients are averaged over the ranks."""
    return model


def unwrap(model: nn.Module) -> nn.Module:
    """The model as it was given to `wrap`."""
    return model


def without_exchange(models: Iterable[nn.Module]) -> AbstractContextManager[object]:
    """Backward passes inside this keep their gradients on their rank."""
    return nullcontext()
