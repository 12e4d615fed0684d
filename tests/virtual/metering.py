"""Bytes counted around a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


class Meter:
    """Bytes of one call: what it leaves allocated, and the most that it had at once, both above the start."""

    def __init__(self, machine: Machine) -> None:
        self._allocator = machine.gpus[0].memory.allocator
        self.kept_bytes = 0
        self.peak_bytes = 0

    def __call__(self, call: Callable[[], Any]) -> Any:
        self._allocator.reset_peaks()
        before = self._allocator.allocated_bytes
        result = call()
        self.kept_bytes = self._allocator.allocated_bytes - before
        self.peak_bytes = self._allocator.peak_allocated_bytes - before
        return result


def blocks(*sizes: int) -> int:
    """Bytes of allocations of these sizes, each rounded up to 512."""
    return sum(-(-size // 512) * 512 for size in sizes)
