from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from metering import Meter, blocks

from flatout.virtual.kernels.attention_flash import flash_splits
from flatout.virtual.kernels.efficient_backward import Kernel
from flatout.virtual.kernels.target import torch_version

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

B, H, T, D = 4, 8, 512, 64
ONE = B * H * T * D
STATE = () if torch_version() < (2, 7) else (16, 8)


def inputs(dtype: torch.dtype, heads: int = H, size: int = D, kv_heads: int | None = None) -> list[torch.Tensor]:
    counts = (heads, kv_heads or heads, kv_heads or heads)
    return [torch.randn(B, n, T, size, device="cuda", dtype=dtype, requires_grad=True) for n in counts]


def test_flash_forward_and_backward(machine: Machine, meter: Meter) -> None:
    q, k, v = inputs(torch.bfloat16)
    out = meter(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert machine.facts["attention_kernels"] == {"flash": 1}
    assert out.shape == (B, H, T, D)
    assert out.stride() == q.stride()
    assert type(out.grad_fn).__name__ == "ScaledDotProductFlashAttentionBackward0"
    assert meter.kept_bytes == blocks(2 * ONE, 4 * B * H * T, *STATE)
    grad = torch.ones_like(out)
    meter(lambda: out.backward(grad))
    # Contiguous copies of two transposed tensors, three gradients, the row sums and the query's gradient in float32.
    assert meter.peak_bytes == blocks(*[2 * ONE] * 5, 4 * B * H * T, 4 * ONE)
    assert q.grad is not None
    assert q.grad.stride() == q.stride()


def test_flash_saves_nothing_to_copy_when_heads_come_from_one_product(meter: Meter) -> None:
    projected = torch.randn(B, T, 3 * H * D, device="cuda", dtype=torch.float16, requires_grad=True)
    q, k, v = (x.view(B, T, H, D).transpose(1, 2) for x in projected.chunk(3, -1))
    out = F.scaled_dot_product_attention(q, k, v)
    assert out.transpose(1, 2).is_contiguous()
    grad = torch.ones(B, T, H, D, device="cuda", dtype=torch.float16).transpose(1, 2)
    meter(lambda: torch.autograd.grad(out, (q, k, v), grad))
    assert meter.peak_bytes == blocks(*[2 * ONE] * 3, 4 * B * H * T, 4 * ONE)


def test_flash_pads_the_head_size_to_eight(meter: Meter) -> None:
    q, k, v = inputs(torch.float16, size=60)
    out = meter(lambda: F.scaled_dot_product_attention(q, k, v))
    assert out.shape == (B, H, T, 60)
    assert meter.kept_bytes == blocks(*[2 * ONE] * 4, 4 * B * H * T, *STATE)


def test_flash_groups_heads_in_backward(meter: Meter) -> None:
    q, k, v = inputs(torch.float16, kv_heads=2)
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    grad = torch.ones_like(out)
    meter(lambda: torch.autograd.grad(out, (q, k, v), grad))
    small = 2 * ONE // 4
    assert meter.peak_bytes == blocks(2 * ONE, 2 * ONE, 2 * ONE, small, small, 4 * B * H * T, 4 * ONE, 2 * ONE, 2 * ONE)


def test_efficient_forward_and_backward(machine: Machine, meter: Meter) -> None:
    q, k, v = inputs(torch.float32)
    out = meter(lambda: F.scaled_dot_product_attention(q, k, v))
    assert machine.facts["attention_kernels"] == {"efficient": 1}
    assert out.transpose(1, 2).is_contiguous()
    assert meter.kept_bytes == blocks(4 * ONE, 4 * B * H * T)
    with torch.no_grad():
        meter(lambda: F.scaled_dot_product_attention(q, k, v))
    assert meter.peak_bytes == blocks(4 * ONE)


def test_efficient_pads_a_mask_that_does_not_start_on_eight(meter: Meter) -> None:
    q = torch.randn(B, H, T, D, device="cuda", dtype=torch.float16)
    k = torch.randn(B, H, 500, D, device="cuda", dtype=torch.float16)
    mask = torch.zeros(T, 500, device="cuda", dtype=torch.float16)
    meter(lambda: F.scaled_dot_product_attention(q, k, k, attn_mask=mask))
    assert meter.peak_bytes == blocks(2 * T * 504, 2 * ONE)


def test_large_heads_are_summed_outside_registers(meter: Meter) -> None:
    q = torch.randn(B, H, T, 264, device="cuda", dtype=torch.float16)
    meter(lambda: F.scaled_dot_product_attention(q, q, q))
    assert meter.peak_bytes == blocks(2 * q.numel(), 4 * q.numel())


def test_old_gpus_take_the_efficient_kernel(machine: Machine, on: Callable[[str], None]) -> None:
    on("t4")
    F.scaled_dot_product_attention(*inputs(torch.float16))
    assert machine.facts["attention_kernels"] == {"efficient": 1}


def test_cudnn_keeps_the_query_s_layout(machine: Machine, meter: Meter) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs(torch.float16))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = meter(lambda: F.scaled_dot_product_attention(q, k, v))
    assert machine.facts["attention_kernels"] == {"cudnn": 1}
    assert out.stride() == q.stride()
    assert meter.kept_bytes == blocks(2 * ONE, 4 * B * H * T, 8, 8)


def test_mathematics_keeps_the_scores(machine: Machine, meter: Meter) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = inputs(torch.float32)
    with sdpa_kernel(SDPBackend.MATH):
        out = meter(lambda: F.scaled_dot_product_attention(q, k, v))
    assert machine.facts["attention_kernels"] == {"math": 1}
    assert meter.kept_bytes > 4 * B * H * T * T
    assert out.shape == (B, H, T, D)


def test_inference_mode_chooses_alike(machine: Machine) -> None:
    with torch.inference_mode():
        F.scaled_dot_product_attention(*inputs(torch.float16))
    assert machine.facts["attention_kernels"] == {"flash": 1}


def test_the_choice_can_be_asked(machine: Machine) -> None:
    assert torch._fused_sdp_choice(*inputs(torch.float16)) == 1
    assert torch._fused_sdp_choice(*inputs(torch.float32)) == 2


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda q: (q, q.float(), q), "same dtype"),
        (
            lambda q: (q, q, q, torch.ones(T, T, device="cuda", dtype=torch.int32)),
            "attn_mask dtype to be bool or float",
        ),
    ],
)
def test_errors_are_pytorch_s_own(machine: Machine, made: Callable[[torch.Tensor], Any], text: str) -> None:
    q = torch.randn(B, H, T, D, device="cuda", dtype=torch.float16)
    with pytest.raises(RuntimeError, match=text):
        F.scaled_dot_product_attention(*made(q))


def test_multihead_attention_in_training_and_inference(machine: Machine) -> None:
    layer = torch.nn.MultiheadAttention(64, 4, batch_first=True).cuda()
    x = torch.randn(2, 16, 64, device="cuda", requires_grad=True)
    layer(x, x, x, need_weights=False)[0].sum().backward()
    assert x.grad is not None
    assert machine.facts["attention_kernels"] == {"efficient": 1}
    layer.eval()
    with torch.no_grad():
        out, weights = layer(x, x, x, need_weights=False)
        assert weights is None
        assert out.shape == x.shape
        assert layer(x, x, x)[1].shape == (2, 16, 16)
    assert machine.facts["attention_kernels"] == {"efficient": 2}


def test_encoder_layer_in_inference(machine: Machine) -> None:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda().eval()
    with torch.no_grad():
        assert layer(torch.randn(2, 16, 64, device="cuda")).shape == (2, 16, 64)
    assert machine.facts["attention_kernels"] == {"efficient": 1}


def test_flex_attention_is_refused_by_name(machine: Machine) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 128, 64, device="cuda")
    with pytest.raises(RuntimeError, match="flex_attention"):
        flex_attention(q, q, q)


@given(
    st.integers(1, 64),
    st.integers(1, 64),
    st.integers(1, 4096),
    st.integers(1, 16384),
    st.sampled_from([32, 64, 128, 256]),
)
def test_splits_stay_in_bounds(batch: int, heads: int, length: int, keys: int, size: int) -> None:
    splits = flash_splits(batch, heads, length, keys, size, 108)
    assert 1 <= splits <= 128
    if batch * heads * -(-length // 64) >= 0.8 * 216:
        assert splits == 1


def test_workspace_of_the_efficient_backward() -> None:
    # Float32, 64 x 64 tiles: only the query's gradient is staged, 16 bytes of lock and 64 x 64 numbers a tile.
    kernel = Kernel(64, 64, 64, half=False, computes_delta=False)
    assert kernel.workspace_bytes(2, 3, 128, 128, 64, 64) == 2 * 3 * 2 * (16 + 64 * 64 * 4)
