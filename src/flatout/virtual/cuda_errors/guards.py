"""Kernels that are looked at on every call, before they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatout.virtual.cuda_errors import determinism, indices, kernel_checks

_GUARDS = (kernel_checks.GUARDS, indices.GUARDS, determinism.GUARDS)


def guarded(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of the operator of that name, as ``aten::mm``, with the checks that it needs (most need none)."""
    checks = [guards[name] for guards in _GUARDS if name in guards]
    if not checks:
        return kernel

    def checked(*args: Any, **kwargs: Any) -> Any:
        for check in checks:
            check(args, kwargs)
        return kernel(*args, **kwargs)

    return checked
