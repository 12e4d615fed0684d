"""Classes of PyTorch written in C whose construction has to be answered differently: ``torch.device(0)`` and others.

A class in C cannot be patched, and a substitute would not be the class that ``isinstance`` and C++ look for. Its
*metaclass* can be replaced: then calling the class comes to us first, and the class stays what it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from flatout.errors import UnsupportedError

Construct: Any = Callable[..., Any]
# An object begins with its reference count(s) and ends, as far as `object` goes, with the pointer to its type.
_TYPE_OFFSET = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)


def _metaclass(construct: Construct, belongs: Callable[[Any], bool] | None) -> type:
    class Intercepted(type):
        __slots__ = ()
        # Classes in C take these two from `type`; a metaclass in Python would hide them behind its own.
        __module__ = property(type.__dict__["__module__"].__get__)
        __doc__ = property(type.__dict__["__doc__"].__get__)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return construct(cls, *args, **kwargs)

        if belongs is not None:

            def __instancecheck__(cls, instance: Any) -> bool:
                return type.__instancecheck__(cls, instance) or belongs(instance)

    return Intercepted


class Intercepted:
    """A class in C whose construction comes to us until `undo`."""

    def __init__(self, target: type, construct: Construct, belongs: Callable[[Any], bool] | None = None) -> None:
        """`construct(cls, *args, **kwargs)` answers calls of `target`; ``type.__call__`` is the plain answer.

        Raises UnsupportedError where this Python lays its objects out in a way that is not known here.
        """
        slot = ctypes.c_void_p.from_address(id(target) + _TYPE_OFFSET)
        if slot.value != id(type(target)):
            raise UnsupportedError(
                f"the virtual GPU cannot answer {target.__qualname__}(...) in this Python: its objects are laid out "
                "differently; use a standard build of CPython 3.10 or newer"
            )
        self._slot = slot
        self._before = type(target)
        self._metaclass = _metaclass(construct, belongs)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._metaclass))
        slot.value = id(self._metaclass)

    def undo(self) -> None:
        """Give the class its own metaclass back."""
        self._slot.value = id(self._before)
