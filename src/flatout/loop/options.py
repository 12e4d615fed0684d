"""What `loop.prepare` may do to a model or an optimizer on request: how it runs, never what it learns.

checkpoint_activations   exact: a block's forward pass is run again in the backward pass, with the same dropout
channels_last, fused     equal but for rounding: other kernels add in another order
compile                  equal but for rounding: fused kernels keep more digits in between
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flatout.errors import UsageError
from flatout.loop.recompute import checkpoint_blocks

BACKEND = "inductor"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


@dataclass(frozen=True)
class Options:
    """The arguments of `loop.prepare`, see there."""

    compile: bool | str = False
    channels_last: bool = False
    checkpoint_activations: bool | Sequence[type[nn.Module]] = False
    fused: bool | None = None
    sync_batchnorm: bool = False
    find_unused: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.compile, bool) and self.compile not in MODES:
            raise UsageError(
                f"loop.prepare(compile={self.compile!r}): not a mode of torch.compile; give True, False or one of "
                f"{', '.join(MODES)}"
            )
        asked = self.checkpoint_activations
        if not isinstance(asked, bool) and not (
            isinstance(asked, Sequence) and all(isinstance(kind, type) for kind in asked)
        ):
            raise UsageError(
                f"loop.prepare(checkpoint_activations={asked!r}): give True, or the classes of the modules: "
                "checkpoint_activations=(Block,)"
            )

    @property
    def uses_cuda_graphs(self) -> bool:
        return self.compile in CUDA_GRAPHS

    def change_model(self, model: nn.Module) -> None:
        """Layout and recomputation, before anything is wrapped around the model."""
        if self.channels_last:
            use_channels_last(model)
        if self.checkpoint_activations:
            checkpoint_blocks(model, self.checkpoint_activations)

    def compile_model(self, model: nn.Module) -> None:
        """Compile in place: the names in the state dict stay as they are."""
        if self.compile is not False:
            model.compile(backend=BACKEND, mode=self.compile if isinstance(self.compile, str) else None)

    def change_optimizer(self, optimizer: Optimizer) -> None:
        """One kernel for all parameters."""
        if self.fused:
            use_fused(optimizer)


LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def use_channels_last(model: nn.Module) -> None:
    """Lay parameters and buffers of images (and volumes) out with the channels last, and the model's inputs too."""
    for tensor in (*model.parameters(), *model.buffers()):
        layout = LAYOUTS.get(tensor.dim())
        if layout is not None:
            tensor.data = tensor.data.contiguous(memory_format=layout)
    model.register_forward_pre_hook(_channels_last_inputs, with_kwargs=True)


def _channels_last_inputs(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_laid_out, args)), {name: _laid_out(value) for name, value in kwargs.items()}


def _laid_out(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() in LAYOUTS:
        return value.contiguous(memory_format=LAYOUTS[value.dim()])
    return value


def use_fused(optimizer: Optimizer) -> None:
    """Switch an optimizer to its fused kernel. Raises `UsageError` for one that has none."""
    name = type(optimizer).__name__
    if "fused" not in optimizer.defaults:
        raise UsageError(
            f"loop.prepare({name}, fused=True): {name} has no fused kernel; Adam, AdamW, SGD and Adagrad have one"
        )
    for key in ("foreach", "differentiable"):
        if any(group.get(key) for group in optimizer.param_groups):
            raise UsageError(f"loop.prepare({name}, fused=True): {name} was made with {key}=True, which excludes it")
    optimizer.defaults["fused"] = True
    for group in optimizer.param_groups:
        group.update(fused=True, foreach=False)
    # What the optimizer's own __init__ notes: the kernel takes the loss scale, and checks its parameters once.
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]
    optimizer._need_device_dtype_check_for_fused = True  # type: ignore[attr-defined]
    if optimizer.state:
        optimizer.load_state_dict(optimizer.state_dict())  # puts its counters of steps where the kernel reads them
