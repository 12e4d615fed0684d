"""`Loop`: the face of the library. It wires the parts together and does no arithmetic of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from flatout.errors import UsageError
from flatout.loop import evaluation
from flatout.loop.checkpoints.saving import Saver
from flatout.loop.checkpoints.state import State
from flatout.loop.cursor import Cursor
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.device import choose_device, move
from flatout.loop.metrics import Metrics
from flatout.loop.numerics.precision import choose_precision, mixed_switches
from flatout.loop.options import Options
from flatout.loop.preparing import Preparer
from flatout.loop.processes import distributed
from flatout.loop.settings import Settings
from flatout.loop.windows.microbatch import Parts
from flatout.loop.windows.step import Step
from flatout.loop.windows.stepping import Stepper


class Loop:
    """An exact training loop, on one device or many.

    `precision`: auto, fp32, tf32, bf16 or fp16 (with loss scaling). `accumulate`: micro-batches to one optimizer step.
    `last_window`: what becomes of a window that the epoch's end cuts short: "step" with its own weight, "carry" it on
    into the next epoch, "drop" it. `clip_norm`: the largest total norm of the gradients. `schedule`: when prepared
    schedulers step: after each optimizer "step", after each "epoch", or "manual". `strategy`: for many processes:
    "ddp", "fsdp", or "auto" by the size of the model's states. `nan`: "raise" when a loss is not a number, or "ignore".
    `quiet`: say nothing on stderr.

        loop = flatout.Loop(accumulate=4)
        model, optimizer, loader = loop.prepare(model, optimizer, loader)
        for epoch in loop.epochs(10):
            for x, y in loader:
                with loop.step():
                    loss = loop.backward(loss_fn(model(x), y))
                loop.log(loss=loss)
            print(epoch, loop.metrics())
    """

    def __init__(
        self,
        *,
        device: str | torch.device = "auto",
        precision: str = "auto",
        accumulate: int = 1,
        last_window: str = "step",
        clip_norm: float | None = None,
        schedule: str = "step",
        strategy: str = "auto",
        nan: str = "raise",
        quiet: bool = False,
    ) -> None:
        settings = Settings(accumulate, last_window, clip_norm, schedule, strategy, nan)
        self._quiet = quiet
        chosen = choose_device(device)
        self.device = chosen.device
        self.ranks = distributed.join(self.device)
        self.precision = choose_precision(precision, self.device)
        self.say(f"training on {self.device} ({chosen.why}) in {self.precision.mode} ({self.precision.why})")
        for warning in (chosen.warning, mixed_switches()):
            if warning is not None:
                self.say(f"warning: {warning}")
        self._cursor = Cursor()
        self._stepper = Stepper(settings, self.precision, self.device, self.ranks, self._cursor, self.say)
        self._parts = Parts(self._stepper, self.say)
        self._metrics = Metrics(self.device, self.ranks)
        self._loaders: list[PreparedLoader] = []
        self._state = State(
            self.device, self.ranks, self.precision, self._cursor, self._stepper, self._metrics, self._loaders
        )
        self._saver = Saver(self._state, self.say)
        self._preparer = Preparer(
            self._stepper,
            self._loaders,
            self._saver.at_next,
            self.say,
            inside_step=lambda: self._stepper.step is not None,
        )

    # --- setting up -------------------------------------------------------------------------------------------------

    def prepare(
        self,
        *things: Any,
        compile: bool | str = False,
        channels_last: bool = False,
        checkpoint_activations: bool | Sequence[type[nn.Module]] = False,
        fused: bool | None = None,
        sync_batchnorm: bool = False,
        find_unused: bool = False,
    ) -> Any:
        """Models, optimizers, loaders and schedulers, ready for this loop, in the order given.

        For the models: `compile` True, or a mode of torch.compile; `channels_last` lays images out for convolutions;
        `checkpoint_activations` computes the activations of the repeated blocks (True), or of modules of the classes
        named, again in the backward pass instead of keeping them. For the optimizers: `fused` takes their fused kernel.
        For many processes: `sync_batchnorm`: BatchNorm takes its statistics over all processes' batches (on GPUs).
        `find_unused`: parameters may be left out of the loss of a step.
        """
        options = Options(compile, channels_last, checkpoint_activations, fused, sync_batchnorm, find_unused)
        prepared = self._preparer.prepare(things, options)
        return prepared[0] if len(prepared) == 1 else prepared

    # --- training ---------------------------------------------------------------------------------------------------

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs 0 to `count - 1`, from where a resumed run left off, or this loop's epochs before."""
        if not isinstance(count, int) or count < 0:
            raise UsageError(f"loop.epochs({count!r}): give the number of epochs, a whole number from 0")
        return self._epochs(count)

    def _epochs(self, count: int) -> Iterator[int]:
        if self._cursor.epoch >= count > 0:
            self.say(
                f"loop.epochs({count}): {self._cursor.epoch} epochs are through already, so none is left; give more, "
                "or make a new Loop to start anew"
            )
        while self._cursor.epoch < count:
            for loader in self._loaders:
                if hasattr(loader, "set_epoch"):
                    loader.set_epoch(self._cursor.epoch)
            self._stepper.catch_up(self._cursor.epoch)
            with self._saver.epoch():
                yield self._cursor.epoch
                self._stepper.end_epoch(self._cursor.epoch)
            self._cursor.epoch += 1
        self._stepper.catch_up(self._cursor.epoch)
        self._saver.end_epochs()

    def step(self, *optimizers: Optimizer, samples: int | None = None) -> AbstractContextManager[Step]:
        """One micro-batch: the forward pass in the loop's precision, `loop.backward`, and at the window's end the step.

        `optimizers`: those to step, all prepared ones where none is named. `samples`: how many samples the micro-batch
        holds, for batches that do not come from a prepared loader.
        """
        chosen = self._to_step("loop.step()", optimizers)
        batch = self._cursor.batch
        if batch is None and samples is None and self._loaders:
            raise UsageError(
                "loop.step(): the batch does not come from a prepared loader; loop over what loop.prepare gave back, "
                "or say how many samples it holds: loop.step(samples=n)"
            )
        if samples is not None and (not isinstance(samples, int) or samples < 1):
            raise UsageError(f"loop.step(samples={samples!r}): a micro-batch holds at least one sample")
        return Step(self._stepper, chosen, samples)

    def _to_step(self, call: str, optimizers: tuple[Optimizer, ...]) -> tuple[Optimizer, ...]:
        if not self._stepper.optimizers:
            raise UsageError(f"{call}: no optimizer is prepared; call loop.prepare(model, optimizer, loader) first")
        if self._stepper.step is not None:
            raise UsageError(f"{call}: already inside a step; steps do not nest")
        if self._cursor.evaluating:
            raise UsageError(f"{call}: inside loop.evaluation(), where nothing trains; step outside of it")
        if len({id(o) for o in optimizers}) < len(optimizers):
            raise UsageError(f"{call}: an optimizer is named twice; name each once, or none for all")
        self._state.trained = True
        return optimizers or tuple(self._stepper.optimizers)

    def step_in_parts(
        self,
        batch: Any,
        compute_loss: Callable[[Any], torch.Tensor],
        *optimizers: Optimizer,
        weight: Callable[[Any], Any] | None = None,
    ) -> torch.Tensor:
        """A whole step on `batch` that survives running out of memory: then the batch is taken in smaller parts.

        `compute_loss` gives the mean loss of a batch, or of a part of it. `weight` gives what that was averaged over
        where it is not the samples: `lambda part: (part["labels"] != -100).sum()` for tokens. The size that fits is
        kept for the steps that follow. Returns the mean loss of the batch, without its graph.

            for batch in loader:
                loss = loop.step_in_parts(batch, lambda part: loss_fn(model(part["x"]), part["y"]))
        """
        return self._parts.step(batch, compute_loss, weight, self._to_step("loop.step_in_parts(...)", optimizers))

    def backward(self, loss: torch.Tensor, *, weight: Any = None, reduction: str = "mean") -> torch.Tensor:
        """The backward pass of a micro-batch's loss, weighed by its share of the window. Returns the loss, detached.

        `weight`: what the loss was averaged over, where that is not the samples: `(labels != -100).sum()` for tokens; a
        number or a tensor (which is not read, so the host does not wait). `reduction`: "sum" for a loss that was summed
        over `weight` things and not averaged.
        """
        step = self._stepper.step
        if step is None:
            raise UsageError("loop.backward(loss): outside a step; call it inside `with loop.step():`")
        if reduction not in ("mean", "sum") or (reduction == "sum" and weight is None):
            raise UsageError(
                f"loop.backward(loss, reduction={reduction!r}): mean, or sum together with weight=, the number of "
                "things that were summed"
            )
        if isinstance(weight, int | float) and not weight >= 0:
            raise UsageError(f"loop.backward(loss, weight={weight!r}): a weight is a number of things, from 0")
        return step.backward(loss, weight, reduction)

    def log(self, **values: Any) -> None:
        """Take values into the running means of `metrics`, weighed by the batch's samples. The host does not wait."""
        batch = self._cursor.batch
        samples = None if batch is None else batch.samples
        for name, value in values.items():
            self._metrics.add(name, value, samples, evaluating=self._cursor.evaluating)

    def metrics(self) -> dict[str, float]:
        """The means of what was logged since the last call, over all ranks. The host waits for the device."""
        self._stepper.settle()
        return self._metrics.read()

    def evaluation(self, *, even: bool = False) -> AbstractContextManager[None]:
        """For validation: models in evaluation mode, no gradients, the loop's precision, nothing of training touched.

            with loop.evaluation():
                for x, y in validation:
                    loop.log(accuracy=(model(x).argmax(1) == y).float().mean())
            loop.print(loop.metrics())

        Modes are put back module by module, so a BatchNorm that was frozen stays so; a window of accumulation goes on
        where it was. On many processes all enter it together (buffers become those of the first) and each evaluates
        its part of the samples, none twice. A process may then have one batch less than the others. `even`: all have
        equally many, for code that exchanges something in each batch; the repeated ones count for nothing in `log` and
        `gather`. Sharded models need it and have it always.
        """
        if self._stepper.step is not None:
            raise UsageError("loop.evaluation(): inside a step; evaluate between steps")
        return evaluation.evaluating(self._stepper.models, self.precision, self._cursor, self.ranks, even=even)

    def gather(self, values: Any) -> Any:
        """The rows of a tensor (or of those in lists, tuples and dicts) from all processes, detached, none twice.

        Each process may bring another number of rows; they come in the order of the processes, and for batches of a
        prepared loader that is the order of the samples. The host waits. All processes have to call it.
        """
        return evaluation.gather(values, self.ranks, self._cursor)

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps taken so far; those that loss scaling skipped do not count."""
        return self._stepper.optimizer_steps

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The gradients' total norm before the last clipping, on the device; None before there was one."""
        return self._stepper.grad_norm

    @property
    def skipped_steps(self) -> int:
        """Optimizer steps that loss scaling skipped because a gradient overflowed in fp16."""
        return self._stepper.loss_scale.skipped

    @property
    def loss_scale(self) -> float:
        """What losses are multiplied by in fp16, 1 in other precisions. The host waits for the device."""
        return self.precision.scaler.get_scale()

    @property
    def precision_share(self) -> float | None:
        """The share, from 0 to 1, of the first step's matrix products and convolutions in bf16 or fp16.

        None before the first step, in fp32, and where everything is compiled.
        """
        return self._stepper.share.value if self._stepper.share is not None else None

    # --- stopping and going on --------------------------------------------------------------------------------------

    def keep(self, **things: Any) -> None:
        """Save and resume these objects too, under their names: `loop.keep(ema=ema_model, best=tracker)`.

        Each has `state_dict()` and `load_state_dict(state)`. Models, optimizers, schedulers and loaders that went
        through `prepare` are kept already.
        """
        for name, thing in things.items():
            if not (callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))):
                raise UsageError(
                    f"loop.keep({name}=...): a {type(thing).__name__} has no state_dict and load_state_dict; give it "
                    "both, or save a value with loop.save(folder, name=value)"
                )
            if name in self._state.kept:
                raise UsageError(f"loop.keep({name}=...): there is something under this name already; give another")
            self._state.kept[name] = thing

    def save(self, folder: str | os.PathLike[str], *, keep: int | None = None, wait: bool = True, **extra: Any) -> None:
        """Save everything that the next steps depend on into `folder`, as `step-00000120.pt` after 120 steps.

        Asked for in the body of a batch, it is done when the loader is asked for the next batch (or has no more), so
        that a resume need not go through half a body; in the middle of an accumulation window, when the window has been
        closed as well. A resume goes on with the next batch. After the last batch that means: with the same epoch, no
        batches left, and the code that follows them.

        Asked for after the loop over the batches, it is done at once, and a resume goes on with the next epoch: make it
        the last thing in an epoch's body, because a resume does not repeat what comes after it. (Before that loop, a
        resume starts this epoch: make it the first thing.) What was asked for in a loop that is left by `break`, or in
        a second loop over batches in one body, is saved at the end of that body.

        `keep`: how many versions stay in the folder; the older ones go when the new one is safe. `wait=False`: the
        state is copied at once and written in the background; the next save, the end of the epochs and the end of the
        process wait for it, and its error is raised there. `extra`: numbers, strings, tensors and collections of them,
        found in `loop.extra` after a resume. With many ranks every one calls this; the first one writes.

        Raises `CheckpointError` where the file cannot be written; the versions before it stay as they were.
        """
        self._saver.ask(_path("save", folder), keep, wait, extra)

    def resume(self, place: str | os.PathLike[str]) -> bool:
        """Go on from the newest checkpoint in the folder `place`, or from the file `place`, bit for bit.

        False when the folder holds none: then the training starts anew. Call it after `prepare` and before the first
        epoch; `loop.epochs` goes on where the checkpoint was made. In the middle of an epoch its body starts again from
        the top, and the loader goes on behind the last batch.

        Random numbers and `loop.metrics()` are put back once more when training really goes on, so whatever the script
        draws or reads until then changes nothing.

        Learning rates and what else an optimizer's groups say are the checkpoint's; change them after the call.

        Raises `CheckpointError` for a damaged file, or one of another model, optimizer or loader: models and
        optimizers are untouched then. Nothing in the file is run.
        """
        return self._saver.resume(_path("resume", place))

    @property
    def extra(self) -> dict[str, Any]:
        """What was given to `save` besides, after a resume; empty before."""
        return self._state.extra

    # --- the rest ---------------------------------------------------------------------------------------------------

    def move(self, batch: Any) -> Any:
        """`batch` with its tensors on the loop's device; for batches that do not come from a prepared loader."""
        return move(batch, self.device)

    def autocast(self) -> AbstractContextManager[object]:
        """The loop's precision outside of steps, for methods other than a model's forward. No longer than one call."""
        return self.precision.autocast()

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model as it was given to `prepare`: for its attributes and its state."""
        return distributed.unwrap(model)

    def print(self, *values: Any, **options: Any) -> None:
        """`print`, on the first rank only."""
        if self.ranks.is_first:
            print(*values, **options)

    def say(self, message: str) -> None:
        """A line of flatout's own on stderr, from the first rank, unless `quiet`."""
        if self.ranks.is_first and not self._quiet:
            print(f"flatout: {message}", file=sys.stderr)


def _path(call: str, place: Any) -> Path:
    try:
        return Path(place)
    except TypeError:
        raise UsageError(f"loop.{call}({place!r}): give a folder's name, or a Path") from None
