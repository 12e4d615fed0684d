"""Fixtures of the kernels' tests: another GPU for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


@pytest.fixture
def on(machine: Machine) -> Iterator[Callable[[str], None]]:
    """Make the machine's GPU another one for the rest of the test: ``on("t4")``."""
    from flatout.gpu import find

    gpu = machine.gpus[0]
    own, held = gpu.specification, dict(machine.workspaces)

    def change(name: str) -> None:
        machine.workspaces.clear()
        gpu.specification = find(name)

    yield change
    machine.workspaces.clear()
    machine.workspaces.update(held)
    gpu.specification = own
