"""Replacing attributes of PyTorch so that they can be put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """What was replaced, and how to get back to what was there before, in order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a module or class, or add it."""
        before = owner.__dict__.get(name, _ABSENT)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)

    def set_all(self, owner: Any, values: dict[str, Any]) -> None:
        """Replace several attributes of one owner."""
        for name, value in values.items():
            self.set(owner, name, value)

    def on_undo(self, action: Callable[[], None]) -> None:
        """Call this when the replacements are put back."""
        self._undo.append(action)

    def undo(self) -> None:
        """Put everything back, the last replacement first."""
        while self._undo:
            self._undo.pop()()


def remake(patches: Patches, module: Any, name: str, base: type) -> type:
    """Make a Python class of PyTorch's again, over another base than the one in C that it was made with.

    The new class takes the old one's place in its module and in ``torch.cuda``.
    """
    import torch

    plain = getattr(module, name)
    namespace = {key: value for key, value in plain.__dict__.items() if key not in ("__dict__", "__weakref__")}
    made = type(name, (base,), namespace)
    for value in namespace.values():
        for function in (value, getattr(value, "__func__", None), getattr(value, "fget", None)):
            for cell in getattr(function, "__closure__", None) or ():
                if cell.cell_contents is plain:  # what `super()` without arguments asks
                    cell.cell_contents = made
                    patches.on_undo(lambda cell=cell: setattr(cell, "cell_contents", plain))  # type: ignore[misc]
    for owner in (module, torch.cuda):
        if owner.__dict__.get(name) is plain:
            patches.set(owner, name, made)
    return made
