"""Code outside PyTorch that would run on a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from flatout.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("machine")


@pytest.fixture
def library() -> Iterator[Any]:
    made = torch.library.Library("flatout_test", "FRAGMENT")
    yield made
    made._destroy()


def test_flash_attention_stands_in() -> None:
    from flash_attn import flash_attn_func, flash_attn_varlen_func

    q = torch.randn(2, 16, 4, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    out = flash_attn_func(q, q, q, causal=True)
    assert out.shape == q.shape
    out.sum().backward()
    with pytest.raises(RuntimeError, match="only support fp16 and bf16"):
        flash_attn_func(q.float(), q.float(), q.float())
    with pytest.raises(UnsupportedError, match="flash_attn_varlen_func"):
        flash_attn_varlen_func(q, q, q)


def test_cuda_extensions_are_refused_by_name() -> None:
    from torch.utils import cpp_extension

    with pytest.raises(UnsupportedError, match=r"CUDA extension `mine`.*custom_op"):
        cpp_extension.load_inline("mine", cpp_sources="", cuda_sources="x", functions=["f"])
    with pytest.raises(UnsupportedError, match="CUDA extension `mine`"):
        cpp_extension.load("mine", ["kernel.cu"])


def test_an_operator_without_a_shape_function_is_refused_by_name(library: Any) -> None:
    library.define("nameless(Tensor x) -> Tensor")
    library.impl("nameless", lambda x: x + 1, "CPU")
    with pytest.raises(UnsupportedError, match=r"register_fake\(\"flatout_test::nameless\"\)"):
        torch.ops.flatout_test.nameless(torch.ones(2, device="cuda"))


def test_an_operator_with_a_shape_function_works() -> None:
    @torch.library.custom_op("flatout_test::shaped", mutates_args=(), device_types="cuda")
    def shaped(x: torch.Tensor) -> torch.Tensor:
        raise UnsupportedError("a kernel that cannot run here")

    x = torch.ones(2, device="cuda")
    with pytest.raises(UnsupportedError, match="cannot run here"):
        shaped(x)
    shaped.register_fake(lambda x: x.new_empty(5))
    assert shaped(x).shape == (5,)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_triton_kernels_are_refused_by_name() -> None:
    from flatout.virtual.face.extensions import _triton_run

    def run(self: Any, *args: Any, **kwargs: Any) -> str:
        return "ran"

    class Kernel:
        __name__ = "my_kernel"

    with pytest.raises(UnsupportedError, match="Triton kernel `my_kernel`"):
        _triton_run(run)(Kernel(), torch.ones(1, device="cuda"))
    assert _triton_run(run)(Kernel(), torch.ones(1)) == "ran"
