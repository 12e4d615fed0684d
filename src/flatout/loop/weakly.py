"""Hooks on what may live longer than the loop: an optimizer, in a notebook, sees many loops."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weakly(method: Callable[[Any], None]) -> Callable[..., None]:
    """`method`, told its first argument for as long as its object lives. The hook does not keep it alive."""
    known = weakref.WeakMethod(method)

    def hook(first: Any, *_: Any) -> None:
        alive = known()
        if alive is not None:
            alive(first)

    return hook
