"""From micro-batches to optimizer steps: the windows, the scaled backward pass, the end of a window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flatout.errors import TrainingError, UsageError
from flatout.loop import distributed, gradients
from flatout.loop.accumulate import Window, window_length
from flatout.loop.cursor import Cursor
from flatout.loop.distributed import Ranks
from flatout.loop.precision import Precision
from flatout.loop.ranks import is_loss_of_peer, lost
from flatout.loop.settings import Settings


class Stepper:
    """Opens, fills and closes the windows of a set of optimizers."""

    def __init__(
        self, settings: Settings, precision: Precision, device: torch.device, ranks: Ranks, cursor: Cursor
    ) -> None:
        self.settings = settings
        self.precision = precision
        self.device = device
        self.ranks = ranks
        self.cursor = cursor
        self.models: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self.schedulers: list[Any] = []
        self.optimizer_steps = 0
        self.grad_norm: torch.Tensor | None = None
        self._windows: dict[tuple[int, ...], Window] = {}
        self._checked: set[int] = set()
        self._stepped: set[int] = set()

    @property
    def between_windows(self) -> bool:
        """No gradients are waiting for their window's end: the moment to save."""
        return not self._windows

    def state_dict(self) -> dict[str, Any]:
        """What the next steps depend on, between windows."""
        return {"optimizer_steps": self.optimizer_steps, "grad_norm": self.grad_norm}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which is from between windows as well."""
        norm = state["grad_norm"]
        self.optimizer_steps = state["optimizer_steps"]
        self.grad_norm = None if norm is None else norm.to(self.device, copy=True)

    def add_optimizer(self, optimizer: Optimizer) -> None:
        """Take in an optimizer, and notice whether its steps are really taken (a scaler may skip them)."""
        self.optimizers.append(optimizer)
        optimizer.register_step_post_hook(lambda stepped, *_: self._stepped.add(id(stepped)))

    def window(self, optimizers: Sequence[Optimizer]) -> Window:
        """The window that these optimizers are in; a new one where they are in none."""
        key = tuple(id(o) for o in optimizers)
        if key not in self._windows:
            self._windows[key] = self._open()
        return self._windows[key]

    def _open(self) -> Window:
        batch, carry = self.cursor.batch, self.settings.last_window == "carry"
        plan = batch.plan if batch else None
        start = batch.number if batch else 0
        length = window_length(self.settings.accumulate, start, plan.batches if plan else None, carry=carry)
        inside = plan is not None and start + length <= plan.batches
        planned = sum(plan.total_in(start + i) for i in range(length)) if plan and inside else None
        return Window(
            length,
            planned=planned,
            ranks=self.ranks.count,
            sum_over_ranks=lambda value: self.ranks.sum(value, self.device),
        )

    def closes(self, window: Window) -> bool:
        """Whether the micro-batch that is about to start is the window's last."""
        batch = self.cursor.batch
        ends = batch is not None and batch.last and self.settings.last_window != "carry"
        return ends or window.count + 1 >= window.length

    def close(self, optimizers: Sequence[Optimizer]) -> None:
        """The window's end: correct, clip, step, forget the gradients, step the schedulers."""
        window = self._windows.pop(tuple(id(o) for o in optimizers))
        if self.settings.last_window == "drop" and window.count < self.settings.accumulate:
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            return
        if self.ranks.count > 1:
            distributed.check_exchanged(self.models, lambda: gradients.parameters(optimizers))
        scaler, first = self.precision.scaler, [o for o in optimizers if id(o) not in self._checked]
        if first:
            gradients.check_first(first, self.device)
            self._checked.update(id(o) for o in first)
        correction = window.correction()
        if correction is not None:
            gradients.multiply(optimizers, correction)
        if self.settings.clip_norm is not None:
            for optimizer in optimizers:
                scaler.unscale_(optimizer)
            self.grad_norm = gradients.clip(optimizers, self.settings.clip_norm)
        self._stepped.clear()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        if self._stepped:
            self.optimizer_steps += 1
            if self.settings.schedule == "step":
                for scheduler in self.schedulers:
                    if id(scheduler.optimizer) in self._stepped:
                        scheduler.step()

    def end_epoch(self) -> None:
        """What is due after an epoch: schedulers that step by epochs."""
        if self.settings.schedule == "epoch":
            for scheduler in self.schedulers:
                scheduler.step()

    def forget(self, optimizers: Sequence[Optimizer]) -> None:
        """Give a window up, gradients and all: an exception came out of it."""
        self._windows.pop(tuple(id(o) for o in optimizers), None)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        distributed.reset(self.models)


class Step:
    """One micro-batch: what `loop.step()` gives to `with`."""

    def __init__(self, stepper: Stepper, optimizers: Sequence[Optimizer], samples: int | None) -> None:
        self._stepper = stepper
        self._optimizers = optimizers
        self._samples = samples
        self._contexts = ExitStack()
        self._scale: Any = None
        self._window: Window | None = None
        self._closes = False

    def __enter__(self) -> Step:
        stepper = self._stepper
        self._window = stepper.window(self._optimizers)
        self._closes = stepper.closes(self._window)
        if not self._closes:
            self._contexts.enter_context(distributed.without_exchange(stepper.models))
        self._contexts.enter_context(stepper.precision.autocast())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._contexts.close()
        if kind is not None:
            self._stepper.forget(self._optimizers)
            ranks = self._stepper.ranks
            if ranks.count > 1 and error is not None and is_loss_of_peer(error):
                raise lost(ranks.rank, "loop.step", error) from error
        elif self._scale is None:
            raise UsageError(
                "loop.step(): the block ended without loop.backward(loss); every step needs one (leave the `with` "
                "block out for a batch that is to be skipped)"
            )
        elif self._closes:
            self._stepper.close(self._optimizers)

    def backward(self, loss: torch.Tensor, weight: Any, reduction: str) -> torch.Tensor:
        """See `Loop.backward`."""
        assert self._window is not None
        if self._scale is None:
            counted: Any = self._samples if weight is None else weight
            if self._samples == 0:  # repeated samples, so that this rank takes part in the exchange
                counted = counted * 0
            self._scale = self._window.scale(counted, planned=weight is None)
        stepper = self._stepper
        detached = loss.detach()
        if stepper.settings.nan == "raise" and stepper.device.type == "cpu" and bool(detached.isnan().any()):
            raise TrainingError(
                f"loop.backward(loss): the loss is NaN in epoch {stepper.cursor.epoch}"
                + (f", batch {stepper.cursor.batch.number}" if stepper.cursor.batch else "")
                + "; a lower learning rate, loop clipping (clip_norm) or a look at this batch may help; "
                "Loop(nan='ignore') goes on"
            )
        scale = self._scale / weight if reduction == "sum" else self._scale
        scaled = loss if isinstance(scale, int | float) and scale == 1 else loss * scale
        with stepper.precision.no_autocast():
            stepper.precision.scaler.scale(scaled).backward()
        return detached
