"""Loss scaling in fp16: which steps were really taken, and what to say when too many were not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from flatout.loop.weakly import weakly
from flatout.loop.windows.gradients import parameters

SKIPS_IN_A_ROW = 10  # a scale that starts at 65536 is below 64 after as many halvings: not the usual settling down


class LossScale:
    """The steps of optimizers under a `GradScaler`, counted. Without fp16 every step is taken.

    `skipped`: steps that were not taken because a gradient overflowed, since the start. `updates`: how often the scale
    may have changed; a window that sees it change has gradients of two scales, see `factor_since`.
    """

    def __init__(self, scaler: torch.amp.GradScaler, device: torch.device, say: Callable[[str], None]) -> None:
        self.skipped = 0
        self.updates = 0
        self._scaler = scaler
        self._scales = scaler.is_enabled()
        self._say = say
        self._one = torch.ones((), device=device)
        self._in_a_row = 0
        self._told = False
        self._taken: set[int] = set()

    def watch(self, optimizer: Optimizer) -> None:
        """Notice the steps that `optimizer` takes: with a loss scale it may skip some."""
        if self._scales:
            optimizer.register_step_post_hook(weakly(self._after_step))

    def _after_step(self, optimizer: Optimizer) -> None:
        # A fused optimizer is called in any case and skips in its kernel. Reading its flag makes the host wait, as
        # GradScaler itself does for all other optimizers.
        found = getattr(optimizer, "found_inf", None)
        if found is None or not bool(found):
            self._taken.add(id(optimizer))

    def state_dict(self) -> dict[str, Any]:
        """What is counted here; the scale itself is the scaler's to save."""
        return {"skipped": self.skipped, "in_a_row": self._in_a_row, "told": self._told}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.skipped, self._in_a_row, self._told = state["skipped"], state["in_a_row"], state["told"]

    @property
    def current(self) -> torch.Tensor | None:
        """The scale, on the device; None where losses are not scaled."""
        return self._scaler.scale(self._one) if self._scales else None

    def step(self, optimizers: Sequence[Optimizer]) -> list[Optimizer]:
        """Step them and adapt the scale. Those that really stepped."""
        if not self._scales:
            for optimizer in optimizers:
                optimizer.step()
            return list(optimizers)
        self._taken.clear()
        scaled = False
        for optimizer in optimizers:
            if any(p.grad is not None for p in parameters([optimizer])):
                self._scaler.step(optimizer)
                scaled = True
            else:  # GradScaler refuses an optimizer without any gradient, for which a step is nothing
                optimizer.step()
        if scaled:
            self._scaler.update()
            self.updates += 1
        taken = [o for o in optimizers if id(o) in self._taken]
        if len(taken) < len(optimizers):
            self.skipped += 1
            self._in_a_row += 1
            self._warn()
        else:
            self._in_a_row = 0
        return taken

    def unscale(self, optimizers: Iterable[Optimizer]) -> None:
        """Give the gradients their true size."""
        if not self._scales:
            return
        for optimizer in optimizers:
            self._scaler.unscale_(optimizer)

    def factor_since(self, scale: torch.Tensor | None, updates: int) -> torch.Tensor | None:
        """What brings gradients of the `scale` at `updates` to today's. None where nothing has changed."""
        if scale is None or updates == self.updates:
            return None
        now = self.current
        return None if now is None else now / scale

    def _warn(self) -> None:
        scale = self._scaler.get_scale()
        if not self._told and (scale < 1 or self._in_a_row > SKIPS_IN_A_ROW):
            self._told = True
            self._say(
                f"{self._in_a_row} optimizer steps in a row were skipped because gradients overflow in fp16 (the loss "
                f"scale is down to {scale:g}); bf16 has the range of fp32 and needs no scaling: Loop(precision='bf16')"
            )
