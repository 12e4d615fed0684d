"""Acting on modules that the script may import later, without importing them now."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]


class _Watching:
    """A finder that lets the others find a module, and adds an action to its loading."""

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}
        self._busy: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        action = self.actions.get(name)
        if action is None or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            plain = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_watching = _Watching()


def when_imported(name: str, action: Action) -> None:
    """Call `action(module)` when that module has been imported; at once where it is already there."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        _watching.actions[name] = action


def watch_imports() -> Callable[[], None]:
    """Watch imports from now on; returns what ends that."""
    sys.meta_path.insert(0, _watching)

    def undo() -> None:
        sys.meta_path.remove(_watching)
        _watching.actions.clear()

    return undo
