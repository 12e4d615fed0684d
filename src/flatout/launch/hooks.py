"""The hook: whatever flatout wants to do inside the script's processes, called before the script's first line.

Standard library only, like everything on the child's side.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Protocol, cast


class Watcher(Protocol):
    """What a hook may return. A method that it lacks is not called."""

    def failing(self, error: BaseException) -> None:
        """The script ends by `error`, which is about to be printed and told: its words may be put right, in place."""

    def finished(self, error: BaseException | None) -> None:
        """The script has ended and its exit handlers have run.

        `error` is the uncaught exception, or the `StopRun`, or `None` where it ended by itself or by `sys.exit`.
        Not called in worker processes, nor where the process is ended from outside or by `os._exit`.
        """

    def forked(self) -> None:
        """This process is a forked child: what the hook set up was inherited."""


Hook = Callable[[dict[str, Any]], "Watcher | None"]


def call_hook(name: str, options: dict[str, Any], launched_as: str) -> Watcher | None:
    """Call the hook ``package.module:function`` with `options`.

    Among them it finds ``launched_as``: "script", or "worker" in a fresh process of `multiprocessing`; and in the
    script's own process ``own_files``, paths that flatout writes to while the script runs.
    """
    module, _, function = name.partition(":")
    hook = cast(Hook, getattr(importlib.import_module(module), function))
    watcher = hook({**options, "launched_as": launched_as})
    forked = getattr(watcher, "forked", None)
    if forked is not None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)
    return watcher
