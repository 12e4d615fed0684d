"""Fixtures of the sparse tensors' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from metering import Meter

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine


@pytest.fixture
def meter(machine: Machine) -> Meter:
    return Meter(machine)
