"""Autocast: CUDA's policy for each operator, and the cache of cast weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F

from flatout.virtual import autocast

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

pytestmark = pytest.mark.usefixtures("machine")


def _listed(header: str, macro: str) -> set[str]:
    body = re.search(rf"#define {macro}\(_\)(.*?)\n\n", header + "\n\n", re.S)
    assert body is not None
    names = re.findall(r"_\(\s*(\w+)(?:\s*,\s*(\w+))?\s*\)", body.group(1))
    return {f"{name}.{overload}" if overload else name for name, overload in names}


@pytest.fixture(scope="module")
def header() -> str:
    path = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    if not path.exists():
        pytest.skip("this PyTorch comes without its headers")
    return path.read_text()


@pytest.mark.parametrize(
    ("macro", "table"),
    [
        ("AT_FORALL_LOWER_PRECISION_FP", autocast.LOWER_PRECISION),
        ("AT_FORALL_FP32", autocast.FLOAT32),
        ("AT_FORALL_FP32_SET_OPT_DTYPE", autocast.FLOAT32_BY_ARGUMENT),
        ("AT_FORALL_PROMOTE", autocast.WIDEST),
    ],
)
def test_the_tables_say_what_the_installed_pytorch_says(header: str, macro: str, table: tuple[str, ...]) -> None:
    assert _listed(header, macro) <= set(table)


def test_every_policy_of_the_installed_pytorch_is_known() -> None:
    unknown = [name for name in autocast.names() if autocast.kernel_for(name) is None]
    assert set(unknown) <= {*autocast.ANSWERED_ABOVE, *autocast.UNKNOWN}


def half(*size: int) -> torch.Tensor:
    return torch.randn(*size, device="cuda").half()


def single(*size: int) -> torch.Tensor:
    return torch.randn(*size, device="cuda")


@pytest.mark.parametrize(
    ("run", "dtype"),
    [
        (lambda: F.linear(single(4, 8), single(3, 8)), torch.float16),
        (lambda: single(4, 8) @ single(8, 4), torch.float16),
        (lambda: torch.einsum("ij,kj->ik", single(4, 8), single(4, 8)), torch.float16),
        (lambda: F.conv2d(single(1, 3, 8, 8), single(4, 3, 3, 3)), torch.float16),
        (lambda: half(4, 8).softmax(-1), torch.float32),
        (lambda: F.layer_norm(half(4, 8), (8,)), torch.float32),
        (lambda: half(4, 8).sum(), torch.float32),
        (lambda: half(4, 8).sum(dtype=torch.float16), torch.float16),
        (lambda: half(4, 8).prod(), torch.float32),
        (lambda: half(4, 8).norm(), torch.float32),
        (lambda: half(4, 8).norm(2, 1), torch.float32),
        (lambda: half(4, 8).cumsum(0), torch.float32),
        (lambda: half(4, 8) ** 2, torch.float32),
        (lambda: torch.cat([half(4, 8), single(4, 8)]), torch.float32),
        (lambda: torch.addcmul(single(4, 8), half(4, 8), half(4, 8)), torch.float32),
        (lambda: F.gelu(half(4, 8)), torch.float16),
        (lambda: F.mse_loss(half(4, 8), half(4, 8)), torch.float32),
        (lambda: F.cross_entropy(half(4, 8), torch.zeros(4, dtype=torch.long, device="cuda")), torch.float32),
        (lambda: single(4, 8).double() @ single(8, 4).double(), torch.float64),
    ],
)
def test_what_comes_out(run: Callable[[], torch.Tensor], dtype: torch.dtype) -> None:
    with torch.autocast("cuda", torch.float16):
        assert run().dtype is dtype


def test_a_disabled_region_casts_nothing() -> None:
    with torch.autocast("cuda", torch.bfloat16), torch.autocast("cuda", enabled=False):
        assert (single(4, 8) @ single(8, 4)).dtype is torch.float32


def test_a_nested_region_has_its_own_dtype() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        with torch.autocast("cuda", torch.float16):
            assert (single(4, 8) @ single(8, 4)).dtype is torch.float16
        assert (single(4, 8) @ single(8, 4)).dtype is torch.bfloat16


def test_a_weight_is_cast_once_and_forgotten_at_the_end(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    weight = single(1024, 1024).requires_grad_()
    x = single(1, 1024)
    with torch.no_grad(), torch.autocast("cuda", torch.float16):
        F.linear(x, weight)
        start = allocator.allocated_bytes
        F.linear(x, weight)
        assert allocator.allocated_bytes == start
    assert allocator.allocated_bytes == start - 1024 * 1024 * 2


def test_without_the_cache_it_is_cast_each_time(machine: Machine) -> None:
    allocator = machine.gpus[0].memory.allocator
    weight = single(1024, 1024).requires_grad_()
    with torch.no_grad(), torch.autocast("cuda", torch.float16, cache_enabled=False):
        F.linear(single(1, 1024), weight)  # the first product also takes cuBLAS's workspace
        start = allocator.allocated_bytes
        F.linear(single(1, 1024), weight)
    assert allocator.allocated_bytes == start


def test_the_casts_are_differentiable() -> None:
    weight = single(8, 8).requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        loss = F.linear(single(4, 8), weight).float().pow(2).mean()
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.dtype is torch.float32


def test_bce_is_refused_with_cudas_words() -> None:
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(single(4).sigmoid(), single(4).sigmoid())


def test_custom_functions_cast_their_inputs() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
        def forward(context: object, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype is torch.float16
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    x = single(4).requires_grad_()
    with torch.autocast("cuda", torch.float16):
        Double.apply(x).sum().backward()
    assert x.grad is not None
