"""Hooks into PyTorch beyond steps and loaders: evaluation, checkpoints, compilation. Outermost calls only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from flatout.steps.imports import when_imported

if TYPE_CHECKING:
    from flatout.watch.graphs import Graphs
    from flatout.watch.recorder import Recorder


def follow(recorder: Recorder, torch: Any, graphs: Graphs) -> Callable[[], None]:
    """Install them; returns what takes them out again."""
    module = torch.nn.Module
    plain_save, plain_train, plain_eval = torch.save, module.train, module.eval

    @wraps(plain_save)
    def save(*arguments: Any, **keywords: Any) -> Any:
        if not recorder.begins("checkpoint"):
            return plain_save(*arguments, **keywords)
        try:
            return plain_save(*arguments, **keywords)
        finally:
            recorder.ends()

    @wraps(plain_train)
    def train(self: Any, mode: bool = True) -> Any:
        if mode:
            recorder.evaluating(model_trains=True)
            graphs.evaluation_ends()
        return plain_train(self, mode)

    @wraps(plain_eval)
    def evaluate(self: Any) -> Any:
        recorder.evaluating(model_trains=False)
        graphs.evaluation_begins()
        return plain_eval(self)

    torch.save, module.train, module.eval = save, train, evaluate
    when_imported("torch._dynamo.callback", lambda callback: _follow_compiler(recorder, callback))

    undo_graphs = graphs.follow(torch)

    def undo() -> None:
        undo_graphs()
        torch.save, module.train, module.eval = plain_save, plain_train, plain_eval

    return undo


def _follow_compiler(recorder: Recorder, callback: Any) -> None:
    """PyTorch tells when a compilation begins and ends; versions differ in what they pass along."""
    handler = getattr(callback, "callback_handler", None)
    if handler is None or not hasattr(handler, "register_start_callback"):
        return
    begun: list[bool] = []

    def starts(*_: Any) -> None:
        begun.append(recorder.begins("compile"))

    def ends(*_: Any) -> None:
        if begun and begun.pop():
            recorder.ends()

    handler.register_start_callback(starts)
    handler.register_end_callback(ends)
