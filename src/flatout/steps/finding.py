"""Hooks into PyTorch that say when a backward pass, an optimizer step and a training step begin and end."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from flatout.recording.schema import Phase
from flatout.steps.counting import StepCounter


class StepListener(Protocol):
    """Who is told. `step_completed` may raise to stop the program."""

    def phase_changed(self, phase: Phase) -> None: ...

    def optimizer_stepped(self, optimizer: Any) -> None: ...

    def step_completed(self, steps: int) -> None: ...


class StepWatch:
    """The installed hooks. `counter` may be told of updates that no optimizer made."""

    def __init__(self, listener: StepListener, manual_updates: Callable[[Any], bool] | None = None) -> None:
        import torch

        self._manual_updates = manual_updates
        self.counter = StepCounter()
        self._listener = listener
        self._phase: Phase = "setup"
        self._undo: list[Any] = []
        self._watch_optimizers(torch)
        self._watch_backward(torch)

    def remove(self) -> None:
        """Take all hooks out again."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def work_begins(self) -> None:
        """The program does its first real work on the GPU: from here on it is no longer setting up."""
        if self._phase == "setup":
            self._enter("forward")

    def _enter(self, phase: Phase) -> Phase:
        before, self._phase = self._phase, phase
        self._listener.phase_changed(phase)
        return before

    def _watch_optimizers(self, torch: Any) -> None:
        optimizer_module = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it as an attribute
        plain_init = torch.optim.Optimizer.__init__
        counter = self.counter

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            plain_init(optimizer, *args, **kwargs)
            counter.optimizer_made(id(optimizer))
            weakref.finalize(optimizer, counter.optimizer_gone, id(optimizer)).atexit = False
            self.work_begins()

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            self._enter("optimizer")

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            self._enter("forward")
            self._listener.optimizer_stepped(optimizer)
            if counter.optimizer_stepped(id(optimizer)):
                self._listener.step_completed(counter.completed)

        torch.optim.Optimizer.__init__ = init
        self._undo.append(lambda: setattr(torch.optim.Optimizer, "__init__", plain_init))
        self._undo.append(optimizer_module.register_optimizer_step_pre_hook(before).remove)
        self._undo.append(optimizer_module.register_optimizer_step_post_hook(after).remove)

    def _watch_backward(self, torch: Any) -> None:
        modules = [
            module for module in (torch.autograd, torch.autograd.graph) if hasattr(module, "_engine_run_backward")
        ]
        plain = modules[-1]._engine_run_backward

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            outermost = self._phase != "backward"
            if outermost:
                asked = None if self.counter.has_optimizers else self._manual_updates
                if asked is not None and asked(args[0] if args else ()):
                    self.counter.parameter_updated()
                if self.counter.backward_begins():
                    self._listener.step_completed(self.counter.completed)
            before = self._enter("backward") if outermost else self._phase
            try:
                return plain(*args, **kwargs)
            finally:
                if outermost:
                    self._enter("forward" if before == "setup" else before)

        for module in modules:
            module._engine_run_backward = run_backward
            self._undo.append(lambda module=module: setattr(module, "_engine_run_backward", plain))


def watch_steps(listener: StepListener, manual_updates: Callable[[Any], bool] | None = None) -> StepWatch:
    """Install the hooks; `listener` is told from now on. Imports torch.

    `manual_updates` is asked at each backward pass, with the roots of its graph, whether a parameter was changed since
    the last one; for a maker that sees no single operation.
    """
    return StepWatch(listener, manual_updates)
