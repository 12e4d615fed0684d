"""Stand-ins: operations that the virtual GPU answers itself. They are written in `kernels` and kept here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Handler: TypeAlias = Callable[..., Any]

handlers: dict[str, Handler] = {}
taken_apart: set[str] = set()
"""Those of the stand-ins' operators that launch nothing themselves: the operators that they call are told of."""


def stands_in(*names: str, apart: bool = False) -> Callable[[Handler], Handler]:
    """Register a stand-in: ``handler(op, *args, **kwargs)`` answers these operators, named as ``add.Tensor``.

    `apart`: it only calls other operators of the virtual GPU, of which listeners hear in its place.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            full = name if "::" in name else f"aten::{name}"
            assert full not in handlers, (
                f"{full} has two stand-ins: {handlers[full].__module__} and {handler.__module__}"
            )
            handlers[full] = handler
            if apart:
                taken_apart.add(full)
        return handler

    return register


composites: dict[str, Handler] = {}


def composes(*names: str) -> Callable[[Handler], Handler]:
    """Register the CUDA side of operators that C++ puts together from others and that ask there for ``is_cuda()``.

    The handler runs above autograd and calls the operators that CUDA would: their derivatives are C++'s own. An
    operator that the installed PyTorch does not have is left out.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            composites[f"aten::{name}"] = handler
        return handler

    return register
