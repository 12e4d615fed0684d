"""CUDA does not survive ``fork``: the child of a process that has used it computes on the CPU only, at full speed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flatout.virtual import machine as machines

_in_child = False
_restore: list[Callable[[], None]] = []
_registered = False
# Source: torch/cuda/__init__.py, _lazy_init.
MESSAGE = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
    "multiprocessing, you must use the 'spawn' start method"
)


class _GoneMachine:
    """Stands for the machine in a child that may not use it. Memory that it inherited may still be given back."""

    def __init__(self, machine: Any) -> None:
        self.thread = machine.thread
        self.device_count = machine.device_count
        self.initialized = False
        self.facts: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(MESSAGE)

    def assume_that(self, text: str) -> None: ...

    def wait(self, reason: str, *, invented: bool = False, steered: bool = False) -> None: ...


def in_bad_fork() -> bool:
    """Whether this process is the forked child of one that had used CUDA."""
    return _in_child


def refuse_in_child() -> None:
    """Raises CUDA's error in a forked child whose parent had used CUDA."""
    if _in_child:
        raise RuntimeError(MESSAGE)


def restore_in_child(restore: Callable[[], None]) -> None:
    """Call this in a forked child: it takes away what would slow CPU work down there."""
    _restore.append(restore)


def _after_fork() -> None:
    global _in_child
    machine = machines.installed()
    if machine is None or not machine.initialized:
        return
    _in_child = True
    machines.install(_GoneMachine(machine))  # type: ignore[arg-type]
    for restore in _restore:
        restore()


def install() -> None:
    """Watch for forks. Python offers no way back, so this happens once."""
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
        _registered = True
