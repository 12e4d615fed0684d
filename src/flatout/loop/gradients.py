"""What happens to gradients between the last backward pass of a window and the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from flatout.errors import TrainingError, UsageError


def parameters(optimizers: Iterable[Optimizer]) -> Iterator[torch.nn.Parameter]:
    """Every parameter of the optimizers, once."""
    seen: set[int] = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield parameter


def multiply(optimizers: Iterable[Optimizer], factor: Any) -> None:
    """Every gradient times `factor` (a number, or a tensor of one element), in place."""
    gradients = [p.grad for p in parameters(optimizers) if p.grad is not None]
    if gradients:
        torch._foreach_mul_(gradients, factor)


def check_first(optimizers: Iterable[Optimizer], device: torch.device) -> list[str]:
    """After the first backward passes: the positions of parameters that got no gradient, as group.index.

    Raises `UsageError` for a parameter on another device, `TrainingError` when no parameter has a gradient.
    """
    missing, some = [], False
    for optimizer in optimizers:
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                if parameter.device.type != device.type:
                    raise UsageError(
                        f"loop.step(): the optimizer holds a parameter of shape {tuple(parameter.shape)} on "
                        f"{parameter.device}, but the loop trains on {device}; pass the model through loop.prepare and "
                        "do not move it afterwards"
                    )
                if parameter.grad is not None:
                    some = True
                elif parameter.requires_grad:
                    missing.append(f"{g}.{i}")
    if missing and not some:
        raise TrainingError(
            "loop.step(): no parameter of the optimizer got a gradient in the first step; the loss does not depend on "
            "them (is the optimizer made from another model, or the loss computed under no_grad?)"
        )
    return missing


def clip(optimizers: Iterable[Optimizer], norm: float) -> torch.Tensor:
    """Scale the gradients down together so that their total norm is at most `norm`. Returns the norm before."""
    total = torch.nn.utils.clip_grad_norm_(list(parameters(optimizers)), norm)
    return total.full_tensor() if hasattr(total, "full_tensor") else total  # sharded gradients: a sharded norm
