"""What happens to gradients between the last backward pass of a window and the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flatout.errors import TrainingError, UsageError
from flatout.loop.processes.distributed import Ranks


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
    held = _held(optimizers)
    if held:
        torch._foreach_mul_(held, factor.reshape(()) if isinstance(factor, torch.Tensor) else factor)


def divide(optimizers: Iterable[Optimizer], by: Any) -> None:
    """Every gradient by `by` (a number, or a tensor of one element), in place."""
    held = _held(optimizers)
    if held:
        torch._foreach_div_(held, by.reshape(()) if isinstance(by, torch.Tensor) else by)


def are_there(optimizers: Iterable[Optimizer]) -> bool:
    """Whether any parameter has a gradient."""
    return any(
        p.grad is not None for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]
    )


def _held(optimizers: Iterable[Optimizer]) -> list[torch.Tensor]:
    """The gradients there are. Sharded ones as their shards: a plain tensor as the factor does not mix with them."""
    return [
        p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad
        for p in parameters(optimizers)
        if p.grad is not None
    ]


def forget(optimizers: Iterable[Optimizer]) -> None:
    """Drop the gradients, as `zero_grad` does, whose hooks for profilers cost more than the work."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


class SetAside:
    """The gradients of `optimizers`, out of the way while others take their step, and back afterwards.

    The generator's loss goes back through the discriminator and leaves gradients there. They are no part of the
    discriminator's next step.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._kept = [(p, p.grad) for p in parameters(optimizers)]
        for parameter, _ in self._kept:
            parameter.grad = None

    def put_back(self) -> None:
        """Those from before, and none from in between."""
        for parameter, gradient in self._kept:
            parameter.grad = gradient


def exchange(optimizers: Iterable[Optimizer], ranks: Ranks, device: torch.device) -> None:
    """Average gradients over the ranks that no backward pass has exchanged. Every backward pass exchanges sharded ones.

    A parameter without a gradient on all ranks keeps none; one that lacks it on some counts as zero there.
    """
    if ranks.count == 1:
        return
    everything = [p for p in parameters(optimizers) if p.requires_grad and not hasattr(p, "to_local")]
    held = torch.tensor([p.grad is not None for p in everything], dtype=torch.float32, device=device)
    for parameter, holders in zip(everything, ranks.sum(held, device).tolist()):
        if holders:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = ranks.sum(gradient, device) / ranks.count


def check_owners(
    optimizers: Iterable[Optimizer], models: Iterable[nn.Module], owned: set[int], device: torch.device
) -> None:
    """Raises `UsageError` for a parameter on another device, or of a model that was not prepared.

    `owned`: identities of parameters that the models had when they were prepared. A sharded model does not show them
    while its weights are whole.
    """
    known = set(owned)
    for model in models:
        for name, parameter in model.named_parameters():
            known.add(id(parameter))
            if parameter.device.type != device.type:
                raise UsageError(
                    f"loop.step(): the prepared {type(model).__name__} is not where it was put: `{name}` is on "
                    f"{parameter.device}, but the loop trains on {device}; do not move a model after loop.prepare, and "
                    "choose its device by Loop(device=...)"
                )
    for parameter in parameters(optimizers):
        if id(parameter) not in known:
            raise UsageError(
                f"loop.step(): the optimizer holds a parameter of shape {tuple(parameter.shape)} on {parameter.device} "
                "that belongs to no prepared model; pass every model that trains through loop.prepare, and make the "
                "optimizer from the parameters of that same model"
            )


def check_first(optimizers: Iterable[Optimizer]) -> list[torch.nn.Parameter]:
    """After the first backward passes: the parameters that got no gradient and should have.

    Raises `TrainingError` when no parameter has a gradient.
    """
    everything = list(parameters(optimizers))
    missing = [p for p in everything if p.grad is None and p.requires_grad]
    if missing and not any(p.grad is not None for p in everything):
        raise TrainingError(
            "loop.step(): no parameter of the optimizer got a gradient in the first step; the loss does not depend on "
            "them (is the loss computed from another model, or detached on the way?)"
        )
    return missing


def in_models_order(optimizers: Iterable[Optimizer], models: Iterable[nn.Module]) -> list[torch.nn.Parameter]:
    """Every parameter of the optimizers, once, in the order of `model.parameters()`; those of no model at the end."""
    own = {id(p): p for p in parameters(optimizers)}
    ordered = [own.pop(id(p)) for model in models for p in model.parameters() if id(p) in own]
    return [*ordered, *own.values()]


def clip(optimizers: Iterable[Optimizer], norm: float, models: Iterable[nn.Module] = ()) -> torch.Tensor:
    """Scale the gradients down together so that their total norm is at most `norm`. Returns the norm before.

    In the models' order, not the optimizers' (whose groups part weights from biases): the last digit of a sum depends
    on it, and plain loops clip `model.parameters()`.
    """
    total = torch.nn.utils.clip_grad_norm_(in_models_order(optimizers, models), norm)
    return total.full_tensor() if hasattr(total, "full_tensor") else total  # sharded gradients: a sharded norm
