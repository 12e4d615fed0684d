"""Graphs that are kept and not used: after a backward pass, and in an evaluation."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flatout.steps.places import user_place

if TYPE_CHECKING:
    from flatout.recording.schema import Place
    from flatout.watch.notes import Notes
    from flatout.watch.recorder import Recorder


class Graphs:
    """Notes them by line."""

    def __init__(self, recorder: Recorder, notes: Notes) -> None:
        self._recorder = recorder
        self._notes = notes
        self._passes: dict[Place | None, list[int]] = {}
        self._hook: Any = None

    def follow(self, torch: Any) -> Callable[[], None]:
        """Follow backward passes; returns what ends that."""
        places = [
            module for module in (torch.autograd, torch.autograd.graph) if hasattr(module, "_engine_run_backward")
        ]
        plain = [module._engine_run_backward for module in places]
        for module in places:
            module._engine_run_backward = self._counted(module._engine_run_backward)

        def undo() -> None:
            self.evaluation_ends()
            for module, before in zip(places, plain):
                module._engine_run_backward = before

        return undo

    def step_completed(self) -> None:
        """Where the step's last backward passes kept their graph, nobody came to use it."""
        for place, (kept, passes) in self._passes.items():
            if kept == passes:
                self._notes.of("graph_retained", place).add(self._recorder.steps, count=kept)
        self._passes.clear()

    def evaluation_begins(self) -> None:
        """A model was put into evaluation mode: does the first one that is called now record a graph?"""
        if self._hook is not None or not self._recorder.steps or not self._recorder.here():
            return

        def called(module: Any, inputs: Any, output: Any) -> None:
            if not module.training and getattr(output, "grad_fn", None) is not None:
                self._notes.of("evaluation_recorded", user_place()).add(self._recorder.steps)
                self.evaluation_ends()

        # Imported here and not by name: code under a compiler looks at the module's own table of hooks.
        self._hook = importlib.import_module("torch.nn.modules.module").register_module_forward_hook(called)

    def evaluation_ends(self) -> None:
        """It trains again."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _counted(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(*arguments: Any, **keywords: Any) -> Any:
            keeps = bool(arguments[2] if len(arguments) > 2 else keywords.get("keep_graph"))
            creates = bool(arguments[3] if len(arguments) > 3 else keywords.get("create_graph"))
            if keeps and not creates and self._recorder.here():
                counts = self._passes.setdefault(user_place(), [0, 0])
                counts[0] += 1
                counts[1] += 1
            elif self._passes:
                for counts in self._passes.values():
                    counts[1] += 1
            return plain(*arguments, **keywords)

        return run_backward
