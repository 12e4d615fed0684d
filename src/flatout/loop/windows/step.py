"""One micro-batch: the forward pass in the loop's precision, the weighed backward pass, the end of the window."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.optim import Optimizer

from flatout.errors import UsageError
from flatout.loop.processes import distributed
from flatout.loop.processes.ranks import is_loss_of_peer, lost
from flatout.loop.windows import gradients
from flatout.loop.windows.gradients import SetAside
from flatout.loop.windows.losses import check_kind
from flatout.loop.windows.stepping import Opened, Stepper


class Step:
    """What `loop.step()` gives to `with`. `samples`: the weight of the micro-batch; None: as the loader announced."""

    def __init__(self, stepper: Stepper, optimizers: Sequence[Optimizer], samples: int | None) -> None:
        self._stepper = stepper
        self._optimizers = optimizers
        self._samples = samples
        self._no_exchange: AbstractContextManager[object] | None = None
        self._autocast: AbstractContextManager[object] | None = None
        self._scale: Any = None
        self._weight: Any = None
        self._opened: Opened | None = None
        self._others: SetAside | None = None
        self._closes = False

    def __enter__(self) -> Step:
        stepper = self._stepper
        opened = self._opened = stepper.window(self._optimizers)
        self._closes = stepper.closes(opened.window)
        stepper.micro_batches += 1
        if stepper.cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # what the graph has put out before may be overwritten from here
        if len(self._optimizers) < len(stepper.optimizers):
            others = [o for o in stepper.optimizers if not any(o is own for own in self._optimizers)]
            self._others = SetAside(others)
        if not self._closes and stepper.ranks.count > 1:
            self._no_exchange = distributed.without_exchange(stepper.models)
            self._no_exchange.__enter__()
        self._autocast = stepper.precision.autocast()
        self._autocast.__enter__()
        stepper.step = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._stepper.step = None
        if self._autocast is not None:
            self._autocast.__exit__(None, None, None)
        if self._no_exchange is not None:
            self._no_exchange.__exit__(None, None, None)
        if self._others is not None:
            self._others.put_back()
        if kind is not None:
            self._stepper.forget(self._optimizers)
            ranks = self._stepper.ranks
            if ranks.count > 1 and error is not None and is_loss_of_peer(error):
                raise lost(ranks.rank, "loop.step", error) from error
        elif self._scale is None:
            self._stepper.forget(self._optimizers)
            raise UsageError(
                "loop.step(): the block ended without loop.backward(loss); every step needs one (leave the `with` "
                "block out for a batch that is to be skipped)"
            )
        elif self._closes:
            self._stepper.close(self._optimizers)

    def backward(self, loss: torch.Tensor, weight: Any, reduction: str) -> torch.Tensor:
        """See `Loop.backward`."""
        check_kind(loss)
        stepper = self._stepper
        if self._scale is None:
            self._check_kept()
            exact = isinstance(weight, torch.Tensor) and loss.dtype == torch.float64  # whole numbers divide in float32
            self._scale = self._take_in(weight.double() if exact else weight, summed=reduction == "sum")
            self._weight = (weight, reduction)
        elif not _same(weight, self._weight[0]) or reduction != self._weight[1]:
            raise UsageError(
                "loop.backward(loss, weight=...): a second loss in the same step, with another weight or reduction "
                "than the first; add the losses up, or give both the same"
            )
        detached = loss.detach()
        stepper.look_at(loss, detached)
        scaled = loss if isinstance(self._scale, int | float) and self._scale == 1 else loss * self._scale
        assert self._opened is not None
        if self._opened.loss_scale is not None:  # the window's, which another window's end may have changed meanwhile
            scaled = scaled * self._opened.loss_scale
        if stepper.precision.dtype is None:
            scaled.backward()
        else:
            with stepper.precision.no_autocast():
                scaled.backward()
        return detached

    def _check_kept(self) -> None:
        opened = self._opened
        assert opened is not None
        if opened.window.count > 0 and not gradients.are_there(self._optimizers):
            raise UsageError(
                f"loop.step(): the gradients of the window's {opened.window.count} micro-batches so far were cleared, "
                "as by optimizer.zero_grad(); the loop clears them itself after a step: take the call out"
            )

    def _take_in(self, weight: Any, *, summed: bool) -> Any:
        """The micro-batch's scale. It is on plan where its batch is the one that the window expected, as announced."""
        opened, batch = self._opened, self._stepper.cursor.batch
        assert opened is not None
        announced = batch.samples if batch is not None else None
        on_plan = (
            weight is None
            and self._samples is None
            and batch is not None
            and self._stepper.cursor.of_pass is opened.of_pass
            and batch.number == opened.first_batch + opened.window.count  # the one that it expects next
        )
        samples = self._samples if self._samples is not None else announced
        alike = weight is None  # batches of samples mostly are, texts of tokens are not
        if weight is None:
            weight = 1 if samples is None else samples
        if samples == 0:  # samples that were repeated, so that this rank takes part in the exchange
            return 0 * opened.window.scale(0 * weight, planned=on_plan, summed=summed, alike=alike)
        return opened.window.scale(weight, planned=on_plan, summed=summed, alike=alike)


def _same(weight: Any, first: Any) -> bool:
    """Whether both are one weight, without reading a tensor."""
    return weight is first or (isinstance(weight, int | float) and isinstance(first, int | float) and weight == first)
