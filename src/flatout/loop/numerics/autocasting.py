"""Where mixed precision is switched on: inside steps, and around a prepared model that is called outside of them.

Autocast keeps low-precision copies of the weights until its outermost block is left. A block that lasts longer than
one optimizer step would train on stale copies, so each step enters its own, and outside of steps each call does.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn


class Scope(threading.local):
    """What this thread is inside of. `depth`: blocks of the loop's own; `calls`: running calls of prepared models."""

    def __init__(self) -> None:
        self.depth = 0
        self.calls: list[torch.autocast | None] = []

    def leave_calls(self) -> None:
        """Leave what Ctrl-C has interrupted: PyTorch runs no hooks after it."""
        while self.calls:
            left = self.calls.pop()
            if left is not None:
                left.__exit__(None, None, None)


class Block(AbstractContextManager[None]):
    """Autocast, known to the hooks as the loop's own. `dtype` None: the surroundings stay as they are."""

    def __init__(self, scope: Scope, device_type: str, dtype: torch.dtype | None) -> None:
        self._scope = scope
        self._autocast = None if dtype is None else torch.autocast(device_type, dtype=dtype)

    def __enter__(self) -> None:
        if self._scope.calls and self._scope.depth == 0:
            self._scope.leave_calls()
        self._scope.depth += 1
        if self._autocast is not None:
            self._autocast.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._scope.depth -= 1
        if self._autocast is not None:
            self._autocast.__exit__(*error)


class OutsideSteps:
    """Hooks that give the outermost call of a model autocast where the loop has not: outside of steps.

    Copies of the model (an average of the weights, say) share them, so they run in the same precision.
    """

    def __init__(self, scope: Scope, device_type: str, dtype: torch.dtype) -> None:
        self._scope = scope
        self._device_type = device_type
        self._dtype = dtype

    def attach(self, model: nn.Module) -> None:
        """Watch the calls of `model`. A compiled model is wrapped from outside: compiled code has no hooks in it."""
        compiled = getattr(model, "_compiled_call_impl", None)
        if compiled is None:
            model.register_forward_pre_hook(self._enter, prepend=True)
            model.register_forward_hook(self._leave, always_call=True)
        else:
            model._compiled_call_impl = partial(self._call, model, compiled)

    @staticmethod
    def detach_others(scope: Scope, model: nn.Module) -> None:
        """Take off what loops with another scope have attached to `model` and its parts: the last one decides."""
        for module in model.modules():
            compiled = getattr(module, "_compiled_call_impl", None)
            if isinstance(compiled, partial) and _is_of_another(scope, compiled.func):
                module._compiled_call_impl = compiled.args[1]
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                for key in [key for key, hook in hooks.items() if _is_of_another(scope, hook)]:
                    del hooks[key]
                    module._forward_hooks_always_called.pop(key, None)

    def _call(self, model: nn.Module, compiled: Any, *args: Any, **kwargs: Any) -> Any:
        self._enter(model, args)
        try:
            return compiled(*args, **kwargs)
        finally:
            self._leave(model, args, None)

    def _enter(self, model: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        scope = self._scope
        if scope.depth or scope.calls or torch.is_autocast_enabled(self._device_type):
            scope.calls.append(None)
            return
        entered = torch.autocast(self._device_type, dtype=self._dtype)
        entered.__enter__()
        scope.calls.append(entered)

    def _leave(self, model: nn.Module, args: Any, result: Any) -> None:
        if torch.compiler.is_compiling() or not self._scope.calls:
            return
        entered = self._scope.calls.pop()
        if entered is not None:
            entered.__exit__(None, None, None)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutsideSteps:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_another_process, (self._device_type, self._dtype)


def _in_another_process(device_type: str, dtype: torch.dtype) -> OutsideSteps:
    """What a model that was saved whole has: the precision, and a scope that no loop is in."""
    return OutsideSteps(Scope(), device_type, dtype)


def _is_of_another(scope: Scope, method: Any) -> bool:
    owner = getattr(method, "__self__", None)
    return isinstance(owner, OutsideSteps) and owner._scope is not scope
