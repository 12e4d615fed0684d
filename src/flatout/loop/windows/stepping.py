"""From micro-batches to optimizer steps: the windows of a set of optimizers, and what happens at a window's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from flatout.errors import UsageError
from flatout.loop.cursor import Cursor
from flatout.loop.numerics.precision import Precision
from flatout.loop.numerics.scaling import LossScale
from flatout.loop.numerics.share import Share
from flatout.loop.processes import distributed
from flatout.loop.processes.distributed import Ranks
from flatout.loop.settings import Settings
from flatout.loop.weakly import weakly
from flatout.loop.windows import gradients
from flatout.loop.windows.accumulate import Window, window_length
from flatout.loop.windows.losses import NaNWatch, Where

if TYPE_CHECKING:
    from flatout.loop.windows.step import Step

LAST_WINDOW = {
    "step": "it is stepped with its own weight",
    "carry": "the next epoch goes on with it",
    "drop": "its gradients are dropped",
}


def bring_state(optimizer: Optimizer) -> None:
    """The optimizer's state to where its parameters are: it was loaded before the model was moved by `prepare`."""
    held = ((p, value) for p, state in optimizer.state.items() for value in state.values())
    if any(isinstance(v, torch.Tensor) and v.dim() > 0 and v.device != p.device for p, v in held):
        optimizer.load_state_dict(optimizer.state_dict())


def _key(optimizers: Sequence[Optimizer]) -> tuple[int, ...]:
    return tuple(map(id, optimizers))


@dataclass
class Opened:
    """A window that is being filled, and where and at which loss scale it was opened."""

    window: Window
    optimizers: Sequence[Optimizer]
    of_pass: object | None
    first_batch: int
    loss_scale: torch.Tensor | None
    scale_updates: int


class Stepper:
    """Opens, fills and closes the windows of sets of optimizers."""

    def __init__(
        self,
        settings: Settings,
        precision: Precision,
        device: torch.device,
        ranks: Ranks,
        cursor: Cursor,
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.settings = settings
        self.precision = precision
        self.device = device
        self.ranks = ranks
        self.cursor = cursor
        self.models: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self.schedulers: list[Any] = []
        self.step: Step | None = None  # the one under way
        self.optimizer_steps = 0
        self.micro_batches = 0
        self.part_size: int | None = None
        self.cuda_graphs = False
        self.grad_norm: torch.Tensor | None = None
        self.loss_scale = LossScale(precision.scaler, device, say)
        self.nan_watch = NaNWatch() if settings.nan == "raise" else None
        self.share = Share(precision.mode) if precision.dtype is not None else None
        self._say = say
        self._opened: dict[tuple[int, ...], Opened] = {}
        self._scheduled_epochs = 0
        self._places: dict[int, int | None] = {}  # where the loop has left each scheduler
        self._told_scheduled = False
        self._stepping = False
        self._owned: set[int] = set()
        self._checked: set[int] = set()
        self._told_last_window = settings.accumulate == 1
        self._told_share = self.share is None
        cursor.when_read.append(self._end_pass)

    @property
    def between_windows(self) -> bool:
        """No gradients are waiting for their window's end: the moment to save."""
        return not self._opened

    @property
    def where(self) -> Where:
        """The micro-batch in hand."""
        batch = self.cursor.batch
        return Where(self.cursor.epoch, batch.number if batch else None, self.micro_batches)

    def _place(self) -> Where:
        return self.where

    def add_model(self, model: nn.Module) -> None:
        """Take in a model, as it is trained: wrapped or sharded."""
        self.models.append(model)
        self._owned.update(id(p) for p in model.parameters())

    def state_dict(self) -> dict[str, Any]:
        """What the next steps depend on, between windows. Raises `TrainingError` if a loss has been NaN."""
        self.settle()
        return {
            "optimizer_steps": self.optimizer_steps,
            "micro_batches": self.micro_batches,
            "scheduled_epochs": self._scheduled_epochs,
            "part_size": self.part_size,
            "loss_scale": self.loss_scale.state_dict(),
            "grad_norm": self.grad_norm,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`, which is from between windows as well."""
        norm = state["grad_norm"]
        self._places.clear()
        self.optimizer_steps = state["optimizer_steps"]
        self.micro_batches = state["micro_batches"]
        self._scheduled_epochs = state["scheduled_epochs"]
        self.part_size = state["part_size"]
        self.loss_scale.load_state_dict(state["loss_scale"])
        self.grad_norm = None if norm is None else norm.to(self.device, copy=True)

    def add_optimizer(self, optimizer: Optimizer) -> None:
        """Take in an optimizer."""
        self.optimizers.append(optimizer)
        self.loss_scale.watch(optimizer)
        optimizer.register_step_pre_hook(weakly(self._before_step))

    def _before_step(self, optimizer: Optimizer) -> None:
        if not self._stepping and (self.step is not None or self._fills_for(optimizer)):
            raise UsageError(
                f"loop.step(): {type(optimizer).__name__}.step() was called in the middle of a window; the loop steps "
                "prepared optimizers itself, and clears their gradients: take the call out, and zero_grad() with it"
            )

    def _fills_for(self, optimizer: Optimizer) -> bool:
        """Whether gradients of a window wait for its step."""
        return any(any(own is optimizer for own in opened.optimizers) for opened in self._opened.values())

    def window(self, optimizers: Sequence[Optimizer]) -> Opened:
        """The window that these optimizers are in; a new one where they are in none."""
        batch, key = self.cursor.batch, _key(optimizers)
        opened = self._opened.get(key)
        if opened is not None and batch is not None and opened.of_pass is not self.cursor.of_pass:
            self._cut_short(opened)  # the loop over the loader was left by `break`
            opened = self._opened.get(key)
        if opened is None:
            if not self._checked.issuperset(key):
                self._check(optimizers)
            gradients.forget(optimizers)  # what backward passes outside of the loop have left
            opened = self._opened[key] = self._open(optimizers)
        return opened

    def _open(self, optimizers: Sequence[Optimizer]) -> Opened:
        batch, length, planned = self.cursor.batch, self.settings.accumulate, None
        plan = batch.plan if batch else None
        start = batch.number if batch else 0
        if plan is not None and (length > 1 or self.ranks.count > 1):  # else the batch is all there is to weigh
            batches = plan.batches
            length = window_length(length, start, batches, carry=self.settings.last_window == "carry")
            if length < self.settings.accumulate:
                self._tell_last_window(length)
            if start + length <= batches:
                planned = sum([plan.total_in(start + i) for i in range(length)])
        window = Window(length, planned=planned, ranks=self.ranks.count, sum_over_ranks=self._sum)
        scale = self.loss_scale
        return Opened(window, optimizers, self.cursor.of_pass, start, scale.current, scale.updates)

    def _sum(self, value: Any) -> Any:
        return self.ranks.sum(value, self.device)

    def closes(self, window: Window) -> bool:
        """Whether the micro-batch that is about to start is the window's last."""
        batch = self.cursor.batch
        ends = batch is not None and batch.last and self.settings.last_window != "carry"
        return ends or window.count + 1 >= window.length

    def _check(self, optimizers: Sequence[Optimizer]) -> None:
        new = [o for o in optimizers if id(o) not in self._checked]
        if not new:
            return
        for optimizer in new:
            if not any(optimizer is prepared for prepared in self.optimizers):
                raise UsageError(
                    f"loop.step({type(optimizer).__name__}): this optimizer was not prepared; pass it through "
                    "loop.prepare first"
                )
        for scheduler in self.schedulers:
            if not any(scheduler.optimizer is prepared for prepared in self.optimizers):
                raise UsageError(
                    f"loop.step(): the optimizer of the prepared {type(scheduler).__name__} was not prepared, so the "
                    "schedule would never step; pass it through loop.prepare as well"
                )
        gradients.check_owners(new, self.models, self._owned, self.device)
        for optimizer in new:
            bring_state(optimizer)

    def look_at(self, loss: torch.Tensor, detached: torch.Tensor) -> None:
        """Before the backward pass of `loss`: whether it is a number, and in which precision it came about."""
        if self.nan_watch is not None:
            self.nan_watch.see(detached, self._place)
        if not self._told_share and self.share is not None:
            self.share.count(loss)

    def close(self, optimizers: Sequence[Optimizer], *, by_hand: bool = False) -> None:
        """The window's end: correct, clip, step, forget the gradients, step the schedulers.

        `by_hand`: the ranks have exchanged their gradients already, and no backward pass has.
        """
        key = _key(optimizers)
        opened = self._opened.pop(key)
        if self.settings.last_window == "drop" and opened.window.count < self.settings.accumulate:
            gradients.forget(optimizers)
            return
        if self.ranks.count > 1 and not by_hand:
            distributed.check_exchanged(self.models, lambda: gradients.parameters(optimizers))
        if not self._checked.issuperset(key):
            self._first_time(optimizers)
        correction = opened.window.correction()
        if correction is not None:
            gradients.divide(optimizers, correction)
        if opened.loss_scale is not None:
            rescaling = self.loss_scale.factor_since(opened.loss_scale, opened.scale_updates)
            if rescaling is not None:
                gradients.multiply(optimizers, rescaling)
        if self.settings.clip_norm is not None:
            self.loss_scale.unscale(optimizers)
            self.grad_norm = gradients.clip(optimizers, self.settings.clip_norm, self.models)
        self._stepping = True
        try:
            stepped = self.loss_scale.step(optimizers)
        finally:
            self._stepping = False
        gradients.forget(optimizers)
        if stepped:
            self.optimizer_steps += 1
            if self.settings.schedule == "step":
                for scheduler in self.schedulers:
                    if any(scheduler.optimizer is optimizer for optimizer in stepped):
                        self._schedule(scheduler)
        if not self._told_share and self.share is not None:
            self._told_share = True
            self._say(str(self.share))

    def _first_time(self, optimizers: Sequence[Optimizer]) -> None:
        first = [o for o in optimizers if id(o) not in self._checked]
        if not first:
            return
        missing = gradients.check_first(first)
        self._checked.update(id(o) for o in first)
        if missing:
            held = [distributed.unwrap(model).named_parameters() for model in self.models]
            names = {id(p): name for parameters in held for name, p in parameters}
            some = ", ".join(
                names.get(id(p), f"one of shape {tuple(p.shape)} that no prepared model holds any more")
                for p in missing[:3]
            ) + (", ..." if len(missing) > 3 else "")
            self._say(f"{len(missing)} parameters got no gradient in the first step and do not train in it: {some}")

    def cut_short(self) -> None:
        """Close the windows that the end of an epoch, or of a loop over a loader, has cut short."""
        for opened in list(self._opened.values()):
            self._cut_short(opened)

    def _cut_short(self, opened: Opened) -> None:
        if self.settings.last_window == "carry":
            return
        if opened.window.count == 0:
            self.forget(opened.optimizers)
            return
        self._tell_last_window(opened.window.count)
        if self.settings.last_window == "step":
            gradients.exchange(opened.optimizers, self.ranks, self.device)
        self.close(opened.optimizers, by_hand=True)

    def _end_pass(self, of_pass: object) -> None:
        for opened in list(self._opened.values()):
            if opened.of_pass is of_pass:
                self._cut_short(opened)

    def end_epoch(self, epoch: int) -> None:
        """What is due after an epoch: a window cut short, schedulers that step by epochs, a look at the losses."""
        self.cut_short()
        self.catch_up(epoch + 1)
        self.settle()

    def catch_up(self, epoch: int) -> None:
        """Step the schedulers that step by epochs as often as befits the start of `epoch`.

        After a resume from the end of an epoch's body they are one behind, because its end was not in the checkpoint.
        """
        while self.settings.schedule == "epoch" and self._scheduled_epochs < epoch:
            self._scheduled_epochs += 1
            for scheduler in self.schedulers:
                self._schedule(scheduler)

    def _schedule(self, scheduler: Any) -> None:
        """Step it, and notice when others do so too."""
        place = getattr(scheduler, "last_epoch", None)
        if self._places.get(id(scheduler), place) != place and not self._told_scheduled:
            self._told_scheduled = True
            self._say(
                f"warning: {type(scheduler).__name__}.step() is called by the script as well, and Loop(schedule="
                f"{self.settings.schedule!r}) calls it: take the call out, or give schedule='manual'"
            )
        scheduler.step()
        self._places[id(scheduler)] = getattr(scheduler, "last_epoch", None)

    def settle(self) -> None:
        """Look at all losses so far. Waits for the device."""
        if self.nan_watch is not None:
            self.nan_watch.settle(self.where)

    def forget(self, optimizers: Sequence[Optimizer]) -> None:
        """Give a window up, gradients and all: an exception came out of it."""
        self._opened.pop(_key(optimizers), None)
        gradients.forget(optimizers)
        distributed.reset(self.models)

    def _tell_last_window(self, count: int) -> None:
        if not self._told_last_window:
            self._told_last_window = True
            self._say(
                f"an epoch's last window holds {count} of {self.settings.accumulate} micro-batches: "
                f"{LAST_WINDOW[self.settings.last_window]} (Loop(last_window={self.settings.last_window!r}))"
            )
