"""Losses that write one number for each element before they reduce them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

ELEMENTS = 1 << 20
LOSSES = (F.mse_loss, F.smooth_l1_loss, F.huber_loss)


def peak_above_start(machine: Machine, call: object) -> int:
    allocator = machine.gpus[0].memory.allocator
    before = allocator.allocated_bytes
    machine.gpus[0].memory.reset_peaks()
    kept = call()
    assert kept is not None
    return allocator.peak_allocated_bytes - before


@pytest.mark.parametrize("loss", LOSSES)
def test_a_reduced_loss_writes_all_elements_first(machine: Machine, loss: object) -> None:
    x, y = torch.randn(ELEMENTS, device="cuda"), torch.randn(ELEMENTS, device="cuda")
    assert peak_above_start(machine, lambda: loss(x, y)) == 4 * ELEMENTS + 512


@pytest.mark.parametrize("loss", LOSSES)
def test_an_unreduced_loss_writes_only_its_result(machine: Machine, loss: object) -> None:
    x, y = torch.randn(ELEMENTS, device="cuda"), torch.randn(ELEMENTS, device="cuda")
    assert peak_above_start(machine, lambda: loss(x, y, reduction="none")) == 4 * ELEMENTS


def test_the_elements_are_of_the_wider_dtype(machine: Machine) -> None:
    x, y = torch.randn(ELEMENTS, device="cuda"), torch.randn(ELEMENTS, device="cuda").half()
    assert peak_above_start(machine, lambda: F.mse_loss(x, y)) == 4 * ELEMENTS + 512


def test_derivatives_of_activations_are_one_kernel(machine: Machine) -> None:
    for activation in (F.silu, F.mish):
        x = torch.randn(ELEMENTS, device="cuda", requires_grad=True)
        y = activation(x)
        grad = torch.ones_like(y)
        assert peak_above_start(machine, lambda y=y, x=x, grad=grad: torch.autograd.grad(y, x, grad)) == 4 * ELEMENTS
