"""One virtual machine for all tests of this process: an A100 40 GB."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from metering import Meter

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


@pytest.fixture(scope="session")
def booted() -> Machine:
    from flatout.gpu import find
    from flatout.virtual.boot import boot

    machine = boot(find("a100-40gb"))
    collect_and_settle()
    return machine


def collect_and_settle() -> None:
    """Collect garbage, and leave what survives alone in later collections: PyTorch's modules are a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """The virtual machine, with nothing on it and nothing counted."""
    gc.collect()
    booted.facts.clear()
    booted.workspaces.clear()
    # A cached block that is a little too large is given whole, so sizes would hang on the tests before.
    booted.gpus[0].memory.allocator.empty_cache()
    booted.phase = "setup"
    yield booted
    collect_and_settle()


@pytest.fixture
def meter(machine: Machine) -> Meter:
    """Counts the bytes of a call."""
    return Meter(machine)
