"""Gradients that meet are added in place where nobody else holds the first one, as on CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

N = 1 << 20


@pytest.fixture
def taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes in bytes that are allocated during a test, in order."""
    memory = machine.gpus[0].memory
    sizes: list[int] = []
    place = memory._place

    def placed(allocation: Any, nbytes: int, category: Any) -> None:
        sizes.append(nbytes)
        place(allocation, nbytes, category)

    monkeypatch.setattr(memory, "_place", placed)
    return sizes


def branches(n: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A leaf, and `n` products of one tensor made from it, to be summed up with gradients ready."""
    leaf = torch.zeros(N, device="cuda", requires_grad=True)
    shared = leaf * 2
    return leaf, [shared * (k + 2) for k in range(n)]


def test_three_gradients_meet_in_one(taken: list[int]) -> None:
    _, outputs = branches(3)
    gradients = [torch.zeros(N, device="cuda") for _ in outputs]
    taken.clear()
    torch.autograd.backward(outputs, gradients)
    assert len(taken) == 4  # three products by constants and one by 2; no sum


def test_a_gradient_that_a_hook_keeps_is_left_alone(taken: list[int]) -> None:
    leaf = torch.zeros(N, device="cuda", requires_grad=True)
    shared = leaf * 2
    outputs = [shared * 3, shared * 4]
    kept: list[torch.Tensor] = []
    for output in outputs:
        output.grad_fn.register_hook(lambda inputs, outputs: kept.append(inputs[0]))
    gradients = [torch.zeros(N, device="cuda") for _ in outputs]
    taken.clear()
    torch.autograd.backward(outputs, gradients)
    assert len(taken) == 4  # two products, their sum apart from both, and the product by 2


def test_values_are_added_up(machine: Machine) -> None:
    leaf = torch.ones(4, device="cuda", requires_grad=True)
    shared = leaf * 2
    (shared * 3 + shared * 4 + shared * 5).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [24.0] * 4


def test_a_graph_of_gradients_adds_out_of_place(taken: list[int]) -> None:
    leaf, outputs = branches(2)
    gradients = [torch.zeros(N, device="cuda") for _ in outputs]
    taken.clear()
    torch.autograd.grad(outputs, leaf, gradients, create_graph=True)
    assert len(taken) == 4
