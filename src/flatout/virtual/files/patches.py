"""Replacing functions of other modules, and putting every one of them back."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

_ABSENT = object()
# These load Python's own modules, or are the place where the replacements live.
_UNTOUCHED = ("posix", "nt", "_io", "_frozen_importlib", "_frozen_importlib_external", "importlib", "zipimport")


class Patches:
    """A list of replacements. `restore` undoes them, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._rebound: list[tuple[list[tuple[Any, Any]], str]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class."""
        old = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)

        def undo() -> None:
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

        self._undo.append(undo)

    def put_variable(self, name: str, value: str) -> None:
        """Set a variable of the process environment."""
        old = os.environ.get(name)
        os.environ[name] = value

        def undo() -> None:
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old

        self._undo.append(undo)

    def on_restore(self, action: Callable[[], None]) -> None:
        """Call `action` when everything is undone."""
        self._undo.append(action)

    def rebind(self, pairs: list[tuple[Any, Any]], package: str) -> None:
        """Replace what modules took with ``from os import remove``: globals that *are* one of the originals.

        `pairs` are originals with their replacements; pairs that are added to the list later count when everything is
        undone, so that modules imported meanwhile get the originals back. Modules of `package` keep theirs.
        """
        self._rebound.append((pairs, package))
        _exchange(pairs, package)

    def rebind_class(self, owner: type, replacements: dict[int, Any]) -> None:
        """Replace functions that a class took as attributes when it was made (pathlib and glob do)."""
        for name, value in list(vars(owner).items()):
            new = replacements.get(id(value.__func__ if isinstance(value, staticmethod) else value))
            if new is not None:
                old = value
                setattr(owner, name, staticmethod(new))
                self._undo.append(lambda owner=owner, name=name, old=old: setattr(owner, name, old))  # type: ignore[misc]

    def extend(self, members: set[Any], originals: Iterable[tuple[Any, Any]]) -> None:
        """Let each replacement be a member of the set where its original is (``os.supports_fd`` and the like)."""
        added = [new for old, new in originals if old in members]
        members.update(added)
        self._undo.append(lambda: members.difference_update(added))

    def restore(self) -> None:
        """Undo everything."""
        for package in {package for _, package in self._rebound}:  # one: each look at all modules takes its time
            pairs = [pair for pairs, owner in self._rebound if owner == package for pair in pairs]
            _exchange([(new, old) for old, new in pairs], package)
        self._rebound.clear()
        while self._undo:
            self._undo.pop()()


def _exchange(pairs: list[tuple[Any, Any]], package: str) -> None:
    # Looked up by kind and then by value, which for functions and classes is identity: `id` itself is an audit event,
    # and a program has some hundred thousand globals.
    kinds = {type(old) for old, _ in pairs}
    replacements = dict(pairs)
    for module_name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or module_name.startswith((*_UNTOUCHED, package)):
            continue
        for name, value in list(vars(module).items()):
            if type(value) in kinds and value in replacements:
                new = replacements[value]
                while type(new) in kinds and new in replacements:  # replaced more than once
                    new = replacements[new]
                setattr(module, name, new)


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls an action with a module once it has been imported; at once where it is there already."""

    def __init__(self) -> None:
        self._actions: dict[str, list[Callable[[Any], None]]] = {}
        self._busy: set[str] = set()

    def add(self, name: str, action: Callable[[Any], None]) -> None:
        """Have `action` called with the module `name`; actions for one module are called in the order of adding."""
        if name in sys.modules:
            action(sys.modules[name])
        else:
            self._actions.setdefault(name, []).append(action)

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._actions or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._actions.pop(name))
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, actions: list[Callable[[Any], None]]) -> None:
        self._loader = loader
        self._actions = actions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with contextlib.suppress(AttributeError):
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        for action in self._actions:
            action(module)
