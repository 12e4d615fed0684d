"""A step that survives running out of memory: the batch is taken in parts, and trains as the whole one would.

The gradient is that of the mean over the whole batch, whatever the parts, so the optimization batch and the learning
rate stay as they were. What differs is rounding, and dropout, which draws other numbers for parts than for the whole.
"""

from __future__ import annotations

import gc
import math
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from flatout.errors import TrainingError, UsageError
from flatout.loop import distributed, gradients
from flatout.loop.accumulate import divisor
from flatout.loop.losses import check_kind
from flatout.loop.parts import batch_length, split
from flatout.loop.stepping import Stepper

# What PyTorch says where it raises no torch.OutOfMemoryError: the CPU's allocator (two wordings), cuDNN, cuBLAS, the
# CUDA driver, MPS.
SIGNS = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
    "backend out of memory",
)

Compute = Callable[[Any], torch.Tensor]
Weigh = Callable[[Any], Any]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a smaller batch may help."""
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
    )


class Parts:
    """Steps in parts. The size of a part that is known to fit is kept in the stepper; None: the whole batch."""

    def __init__(self, stepper: Stepper, say: Callable[[str], None]) -> None:
        self._stepper = stepper
        self._say = say

    def step(self, batch: Any, compute: Compute, weigh: Weigh | None, optimizers: Sequence[Optimizer]) -> torch.Tensor:
        """One optimizer step on the mean loss of `batch`. Returns that loss."""
        stepper = self._stepper
        _refuse(stepper)
        opened = stepper.window(optimizers)
        others = gradients.SetAside([o for o in stepper.optimizers if not any(o is own for own in optimizers)])
        try:
            loss = self._fitting(batch, compute, weigh, optimizers)
        except BaseException:
            stepper.forget(optimizers)
            raise
        finally:
            others.put_back()
        opened.window.count = 1
        stepper.close(optimizers, by_hand=True)
        return loss

    def _fitting(
        self, batch: Any, compute: Compute, weigh: Weigh | None, optimizers: Sequence[Optimizer]
    ) -> torch.Tensor:
        """Attempts, until one fits: each with parts half as large."""
        stepper, length = self._stepper, batch_length(batch)
        while True:
            before = _Before(stepper.models, stepper.device)
            loss, error = self._attempt(split(batch, length, stepper.part_size or length), compute, weigh)
            if not stepper.ranks.any(error is not None):
                assert loss is not None
                gradients.exchange(optimizers, stepper.ranks, stepper.device)
                return loss
            gradients.forget(optimizers)
            before.restore()
            longest = max(stepper.ranks.gather(length))
            size = min(stepper.part_size or longest, longest)
            if size <= 1:
                raise TrainingError(
                    "loop.step_in_parts(batch, compute_loss): a single sample does not fit into memory; smaller or "
                    "shorter samples, prepare(checkpoint_activations=True), or a lower precision are left"
                ) from error
            del error
            _give_back_memory(stepper.device)
            stepper.part_size = math.ceil(size / 2)
            self._say(
                f"out of memory with {size} samples at once: going on with parts of {stepper.part_size}, same batch"
            )

    def _attempt(
        self, parts: Sequence[Any], compute: Compute, weigh: Weigh | None
    ) -> tuple[torch.Tensor | None, BaseException | None]:
        """The backward passes of all parts, not exchanged. An error that says out of memory is given back."""
        stepper = self._stepper
        batch = stepper.cursor.batch
        # A sample that was only repeated, so that this rank has one, weighs nothing.
        repeated = batch is not None and batch.samples == 0
        weights = [0 if repeated else batch_length(part) if weigh is None else weigh(part) for part in parts]
        total = divisor(stepper.ranks.sum(sum(weights), stepper.device))
        mean: Any = 0.0
        try:
            with distributed.without_exchange(stepper.models):
                for part, weight in zip(parts, weights):
                    # The exchange averages over the ranks, hence their number.
                    mean = mean + self._pass(part, compute, weight * stepper.ranks.count / total) * weight
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None, error.with_traceback(None)  # whose frames hold on to the activations
        return mean / divisor(sum(weights)), None

    def _pass(self, part: Any, compute: Compute, scale: Any) -> torch.Tensor:
        """The forward and backward pass of one part. Returns its loss."""
        stepper = self._stepper
        with stepper.precision.autocast():
            loss = compute(part)
            check_kind(loss, "loop.step_in_parts(batch, compute_loss)")
            stepper.look_at(loss, loss.detach())
            with stepper.precision.no_autocast():
                stepper.precision.scaler.scale(loss * scale).backward()
        return loss.detach()


def _refuse(stepper: Stepper) -> None:
    if stepper.settings.accumulate != 1:
        raise UsageError(
            f"loop.step_in_parts(...): with Loop(accumulate={stepper.settings.accumulate}); it cuts batches up itself, "
            "so give accumulate=1 and the loader the batch size that is to be optimized"
        )
    for model in stepper.models:
        for name, module in model.named_modules():
            if isinstance(module, _BatchNorm) and module.training:
                raise UsageError(
                    f"loop.step_in_parts(...): `{name}` is a {type(module).__name__} in training mode, whose result "
                    "depends on what is in the batch with a sample; parts would train differently. Use GroupNorm, "
                    "LayerNorm, or put it in eval()"
                )
        if any(hasattr(p, "to_local") for p in model.parameters()):
            raise UsageError("loop.step_in_parts(...): the model is sharded; it works with Loop(strategy='ddp')")


class _Before:
    """What a failed attempt may have changed besides gradients: random number generators and buffers."""

    def __init__(self, models: Sequence[nn.Module], device: torch.device) -> None:
        self._device = device
        self._buffers = [(buffer, buffer.clone()) for model in models for buffer in model.buffers()]
        self._torch = torch.get_rng_state()
        self._on_device = torch.get_device_module(device).get_rng_state() if device.type != "cpu" else None
        self._python = random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)
        torch.set_rng_state(self._torch)
        if self._on_device is not None:
            torch.get_device_module(self._device).set_rng_state(self._on_device)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def _give_back_memory(device: torch.device) -> None:
    """Blocks of the size that did not fit are of no use for parts."""
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()
