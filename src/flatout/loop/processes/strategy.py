"""DDP or FSDP: whether a model's states fit on each device, by arithmetic.

For each parameter a device holds, under DDP:

    weight              its own size                     4 bytes in fp32
    gradient            its own size                     4; DDP's buckets are the gradients, no second copy
    optimizer's state   by the optimizer                 8 for Adam, 4 for SGD with momentum, 0 without
    autocast's copy     2 in bf16 or fp16, during the forward pass

that is 16 bytes a parameter for Adam in fp32 and 18 in mixed precision. FSDP cuts the first three in as many parts as
there are processes, and pays with a second and third trip of all weights over the network in each step. So DDP is
chosen as long as the states leave half of the memory to activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

SHARE_FOR_STATES = 0.5  # of a device's memory; the other half is for activations and workspaces

# Copies of a parameter that an optimizer keeps, by its class's name.
COPIES = {
    "Adadelta": 2, "Adafactor": 0, "Adagrad": 1, "Adam": 2, "Adamax": 2, "AdamW": 2, "ASGD": 1, "Lion": 1, "Muon": 1,
    "NAdam": 2, "RAdam": 2, "RMSprop": 1, "Rprop": 2, "SGD": 0,
}  # fmt: skip
COPIES_OF_UNKNOWN = 2  # as Adam's


@dataclass(frozen=True)
class States:
    """What one device holds for a model's parameters under DDP, all in bytes."""

    weights: int
    gradients: int
    optimizer: int
    casts: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.casts


def states_bytes(
    parameters: Iterable[torch.nn.Parameter], optimizers: Sequence[Optimizer], *, low_precision: bool = False
) -> States:
    """What these parameters take under DDP. Without an optimizer one like Adam is assumed."""
    weights = gradients = casts = 0
    for parameter in {id(p): p for p in parameters}.values():
        size = parameter.numel() * parameter.element_size()
        weights += size
        gradients += size if parameter.requires_grad else 0
        casts += 2 * parameter.numel() if low_precision and parameter.dtype == torch.float32 else 0
    kept = sum(_kept(optimizer) for optimizer in optimizers) if optimizers else COPIES_OF_UNKNOWN * gradients
    return States(weights, gradients, kept, casts)


def _kept(optimizer: Optimizer) -> int:
    """The bytes of an optimizer's state, once it has stepped."""
    total = 0
    for group in optimizer.param_groups:
        copies = COPIES.get(type(optimizer).__name__, COPIES_OF_UNKNOWN)
        copies += bool(group.get("amsgrad")) + bool(group.get("centered"))
        copies += bool(group.get("momentum")) if type(optimizer).__name__ in ("SGD", "RMSprop") else 0
        total += sum(copies * p.numel() * p.element_size() for p in group["params"] if p.requires_grad)
    return total


def choose_strategy(states: States, memory_bytes: int | None, ranks: int) -> tuple[str, str]:
    """ddp or fsdp for a device of `memory_bytes` (None: a CPU, which always takes DDP), and why, with the numbers."""
    if memory_bytes is None:
        return "ddp", "on a CPU"
    share = states.total / memory_bytes
    numbers = (
        f"weights {_gib(states.weights)}, gradients {_gib(states.gradients)}, optimizer {_gib(states.optimizer)}, "
        f"autocast's copies {_gib(states.casts)}: {share:.0%} of {_gib(memory_bytes)}"
    )
    if share <= SHARE_FOR_STATES:
        return "ddp", f"the states fit in each device: {numbers}"
    return "fsdp", f"the states leave less than half of a device to activations, so {ranks} share them: {numbers}"


def memory_of(device: torch.device) -> int | None:
    """The device's memory in bytes; None for a CPU."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
