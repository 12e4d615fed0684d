"""FLOPs are those of PyTorch's own counter, on operations that really run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from describing import calls_of, type_of
from torch.utils.flop_counter import flop_registry

from flatout.costs import Operation, cost

_aten: Any = torch.ops.aten


def _trained(module: torch.nn.Module, *shape: int) -> Callable[[], Any]:
    def run() -> None:
        module(torch.randn(*shape, requires_grad=True)).sum().backward()

    return run


CALLS = {
    "mm": lambda: torch.mm(torch.randn(5, 7), torch.randn(7, 3)),
    "addmm": _trained(torch.nn.Linear(6, 10), 4, 6),
    "bmm": lambda: torch.bmm(torch.randn(2, 5, 7), torch.randn(2, 7, 3)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(2, 5, 3), torch.randn(2, 5, 7), torch.randn(2, 7, 3)),
    "convolution 3x3": _trained(torch.nn.Conv2d(4, 8, 3, padding=1), 2, 4, 9, 11),
    "convolution 1x1, strided": _trained(torch.nn.Conv2d(4, 8, 1, stride=2, bias=False), 2, 4, 9, 11),
    "convolution, one-dimensional": _trained(torch.nn.Conv1d(4, 8, 3), 2, 4, 9),
    "convolution, three-dimensional": _trained(torch.nn.Conv3d(4, 8, 3), 2, 4, 5, 6, 7),
    "convolution, transposed": _trained(torch.nn.ConvTranspose2d(4, 8, 3, stride=2), 2, 4, 5, 6),
    "convolution, channels last": _trained(torch.nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last), 2, 4, 9, 11),
}


@pytest.mark.parametrize("name", CALLS)
def test_same_as_pytorch_counts(name: str) -> None:
    seen = calls_of(CALLS[name])
    counted = [(operation, flops) for operation, flops in seen if flops]
    assert counted
    for operation, flops in counted:
        assert cost(operation).flops == flops, operation


@pytest.mark.parametrize(
    "layer", [torch.nn.Conv2d(8, 16, 3, groups=4, dilation=2), torch.nn.Conv2d(8, 8, 5, groups=8)], ids=["4", "8"]
)
def test_groups(layer: torch.nn.Conv2d) -> None:
    """Each gradient of a grouped convolution takes what its forward takes; PyTorch's counter leaves the groups out of
    the weight's."""
    seen = calls_of(_trained(layer, 2, 8, 9, 11))
    forward = next((op, flops) for op, flops in seen if op.base == "aten::convolution")
    backward = next(op for op, _ in seen if op.base == "aten::convolution_backward")
    assert cost(forward[0]).flops == forward[1]
    assert cost(backward).flops == 2 * forward[1]


def _attention(name: str, *tail: Any, backward: bool) -> tuple[Operation, int]:
    """Attention's fused kernels run on GPUs alone: the counter is asked with the shapes."""
    query = torch.empty(2, 4, 96, 32, dtype=torch.float16)
    key = torch.empty(2, 4, 64, 32, dtype=torch.float16)
    tensors = [query, query, key, key] if backward else [query, key, key]
    arguments = (*tensors, *tail)
    flops = flop_registry[getattr(_aten, name)](*arguments, out_val=None)
    operation = Operation(
        f"aten::{name}",
        tuple(type_of(a) if isinstance(a, torch.Tensor) else a for a in arguments),
        outputs=(type_of(query),),
    )
    return operation, flops


@pytest.mark.parametrize(
    ("name", "tail", "backward"),
    [
        ("_scaled_dot_product_flash_attention", (0.0, False), False),
        ("_scaled_dot_product_efficient_attention", (None, True, 0.0, False), False),
    ],
)
def test_attention(name: str, tail: tuple[Any, ...], backward: bool) -> None:
    operation, flops = _attention(name, *tail, backward=backward)
    assert cost(operation).flops == flops


def test_a_causal_mask_halves_attention() -> None:
    whole, _ = _attention("_scaled_dot_product_flash_attention", 0.0, False, backward=False)
    causal, _ = _attention("_scaled_dot_product_flash_attention", 0.0, True, backward=False)
    assert cost(causal).flops * 2 == cost(whole).flops


def test_attention_backward_is_five_products() -> None:
    query = torch.empty(2, 4, 96, 32, dtype=torch.float16)
    key = torch.empty(2, 4, 64, 32, dtype=torch.float16)
    name = "_scaled_dot_product_flash_attention_backward"
    arguments = (query, query, key, key, query, query[..., 0], None, None, 96, 64, 0.0, False)
    operation = Operation(
        f"aten::{name}",
        tuple(type_of(a) if isinstance(a, torch.Tensor) else a for a in arguments),
        outputs=(type_of(query), type_of(key), type_of(key)),
    )
    flops = flop_registry[getattr(_aten, name)](*arguments, out_val=None)
    assert cost(operation).flops == flops


def test_written_out_attention_has_the_flops_of_its_products() -> None:
    q = torch.randn(2, 4, 16, 8)
    seen = calls_of(lambda: F.softmax(q @ q.transpose(-1, -2), -1) @ q)
    assert sum(cost(operation).flops for operation, _ in seen) == sum(flops for _, flops in seen) > 0
