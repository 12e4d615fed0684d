"""Helpers of the kernels' tests: another GPU for one test, and bytes counted around a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

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


@pytest.fixture
def meter(machine: Machine) -> Meter:
    return Meter(machine)


@pytest.fixture
def on(machine: Machine) -> Iterator[Callable[[str], None]]:
    """Make the machine's GPU another one for the rest of the test: ``on("t4")``."""
    from flatout.gpu import find

    gpu = machine.gpus[0]
    own = gpu.specification

    def change(name: str) -> None:
        machine.workspaces.clear()
        gpu.specification = find(name)

    yield change
    machine.workspaces.clear()
    gpu.specification = own


def blocks(*sizes: int) -> int:
    """Bytes of allocations of these sizes, each rounded up to 512."""
    return sum(-(-size // 512) * 512 for size in sizes)
