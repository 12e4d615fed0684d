"""Dropout, softmax, norms, CTC loss, sampling, weight norm: what they keep for backward."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from metering import Meter, blocks

from flatout.virtual.kernels.target import torch_version

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

N = 128 * 1024


@pytest.fixture
def x(machine: Machine) -> torch.Tensor:
    return torch.randn(128, 1024, device="cuda", requires_grad=True)


def test_dropout_keeps_a_mask_of_bytes(x: torch.Tensor, meter: Meter) -> None:
    y = meter(lambda: F.dropout(x, 0.1))
    assert meter.kept_bytes == meter.peak_bytes == blocks(4 * N, N)
    assert type(y.grad_fn).__name__ == "NativeDropoutBackward0"


def test_dropout_of_evaluation_is_the_input_itself(x: torch.Tensor, meter: Meter) -> None:
    assert meter(lambda: F.dropout(x, 0.1, training=False)) is x
    assert meter.kept_bytes == 0


def test_dropout_in_place_is_composed(x: torch.Tensor, meter: Meter) -> None:
    y = x * 2
    meter(lambda: F.dropout(y, 0.1, inplace=True))
    assert meter.kept_bytes == blocks(4 * N)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_dropout_out_of_range(x: torch.Tensor, p: float) -> None:
    with pytest.raises((ValueError, RuntimeError), match="between 0 and 1"):
        torch.dropout(x, p, True)


def test_feature_dropout_has_one_number_a_channel(machine: Machine, meter: Meter) -> None:
    image = torch.randn(4, 8, 32, 32, device="cuda", requires_grad=True)
    meter(lambda: F.dropout2d(image, 0.5))
    assert meter.kept_bytes == blocks(4 * image.numel(), 4 * 32)


def test_softmax_of_half_goes_straight_to_float32(machine: Machine, meter: Meter) -> None:
    half = torch.randn(128, 1024, device="cuda", dtype=torch.float16)
    for function in (F.softmax, F.log_softmax):
        y = meter(lambda function=function: function(half, -1, dtype=torch.float32))
        assert y.dtype is torch.float32
        assert meter.peak_bytes == blocks(4 * N)
    brain = torch.randn(128, 1024, device="cuda", dtype=torch.bfloat16)
    meter(lambda: F.softmax(brain, -1, dtype=torch.float32))
    assert meter.peak_bytes == blocks(4 * N, 4 * N)


@pytest.mark.parametrize(("dtype", "bytes_each"), [(torch.float16, 2), (torch.float32, 4)])
def test_softmax_backward_multiplies_gradient_and_output_first(
    machine: Machine, meter: Meter, dtype: torch.dtype, bytes_each: int
) -> None:
    x = torch.randn(128, 1024, device="cuda", dtype=dtype, requires_grad=True)
    y = F.softmax(x, -1, dtype=torch.float32)
    gradient = torch.ones_like(y)
    meter(lambda: torch.autograd.grad(y, x, gradient, retain_graph=True))
    assert meter.peak_bytes == blocks(bytes_each * N, 4 * N)  # the result, and the product in float32
    turned = torch.ones(1024, 128, device="cuda").t()
    meter(lambda: torch.autograd.grad(y, x, turned, retain_graph=True))
    assert meter.peak_bytes == blocks(bytes_each * N, 4 * N, 4 * N)  # the product is turned too, and copied


def test_layer_norm_keeps_float32_statistics(machine: Machine, meter: Meter) -> None:
    half = torch.randn(128, 1024, device="cuda", dtype=torch.float16, requires_grad=True)
    meter(lambda: F.layer_norm(half, (1024,)))
    assert meter.kept_bytes == blocks(2 * N, 4 * 128, 4 * 128)


def test_layer_norm_backward_copies_an_expanded_gradient(machine: Machine, meter: Meter) -> None:
    x = torch.randn(128, 1024, device="cuda", requires_grad=True)
    total = F.layer_norm(x, (1024,)).sum()
    meter(lambda: total.backward())
    assert meter.peak_bytes == blocks(4, 4 * N, 4 * N)


def test_rms_norm(x: torch.Tensor, meter: Meter) -> None:
    weight = torch.ones(1024, device="cuda", requires_grad=True)
    y = meter(lambda: F.rms_norm(x, (1024,), weight))
    fused = hasattr(torch.ops.aten, "_fused_rms_norm") and torch_version() >= (2, 9)
    if fused:
        assert meter.kept_bytes == blocks(4 * N, 4 * 128)
        assert "FusedRmsNorm" in type(y.grad_fn).__name__
    else:
        assert meter.kept_bytes > blocks(4 * N, 4 * N)
    y.sum().backward()
    assert weight.grad is not None


def test_group_norm_keeps_statistics_in_the_input_s_type(machine: Machine, meter: Meter) -> None:
    image = torch.randn(4, 64, 16, 16, device="cuda", dtype=torch.float16)
    y = meter(lambda: F.group_norm(image.to(memory_format=torch.channels_last), 8))
    assert y.is_contiguous()
    y = meter(lambda: F.group_norm(image, 8))
    assert meter.kept_bytes == blocks(2 * image.numel())
    assert meter.peak_bytes == blocks(2 * image.numel(), 2 * 32, 2 * 32)


def test_silu_backward_is_one_kernel(x: torch.Tensor, meter: Meter) -> None:
    y = F.silu(x)
    grad = torch.ones_like(y)
    meter(lambda: torch.autograd.grad(y, x, grad))
    assert meter.peak_bytes == blocks(4 * N)


def test_weight_norm_is_one_kernel(machine: Machine) -> None:
    v = torch.randn(8, 4, device="cuda", requires_grad=True)
    w = torch._weight_norm(v, torch.ones(8, 1, device="cuda"), 0)
    assert type(w.grad_fn).__name__ == "WeightNormInterfaceBackward0"
    w.sum().backward()


def test_ctc_loss(machine: Machine) -> None:
    scores = torch.randn(10, 2, 5, device="cuda", requires_grad=True)
    targets = torch.ones(2, 3, dtype=torch.long, device="cuda")
    F.ctc_loss(scores.log_softmax(2), targets, torch.full((2,), 10), torch.full((2,), 3)).backward()
    assert scores.grad is not None
    flat = torch.ones(6, dtype=torch.int32)
    loss = torch.ctc_loss(scores.log_softmax(2), flat, [10, 10], [3, 3], 0, 1)
    assert "Cudnn" in type(loss.grad_fn.next_functions[0][0]).__name__ or loss.numel() == 1


def test_grid_sampling_takes_cudnn_for_aligned_corners(machine: Machine) -> None:
    image, grid = torch.randn(2, 3, 8, 8, device="cuda", requires_grad=True), torch.rand(2, 4, 4, 2, device="cuda")
    aligned = F.grid_sample(image, grid, align_corners=True)
    assert type(aligned.grad_fn).__name__ == "CudnnGridSamplerBackward0"
    aligned.sum().backward()
    other = F.grid_sample(image, grid, align_corners=False)
    assert type(other.grad_fn).__name__ == "GridSampler2DBackward0"


def test_embedding_bag_has_cuda_s_outputs(machine: Machine) -> None:
    table = torch.randn(100, 32, device="cuda", requires_grad=True)
    bags = F.embedding_bag(torch.zeros(4, 8, dtype=torch.long, device="cuda"), table)
    assert bags.shape == (4, 32)
    bags.sum().backward()
    assert table.grad is not None


def test_embedding_backward_sorts_its_indices(machine: Machine, meter: Meter) -> None:
    table = torch.randn(50, 16, device="cuda", requires_grad=True)
    few = F.embedding(torch.zeros(100, dtype=torch.long, device="cuda"), table)
    grad = torch.ones_like(few)
    meter(lambda: torch.autograd.grad(few, table, grad))
    assert meter.peak_bytes == blocks(4 * 50 * 16)
    many = F.embedding(torch.zeros(5000, dtype=torch.long, device="cuda"), table)
    grad = torch.ones_like(many)
    meter(lambda: torch.autograd.grad(many, table, grad))
    assert meter.peak_bytes > blocks(4 * 50 * 16, *[8 * 5000] * 4)


def test_flattened_recurrent_net_warns_of_nothing(machine: Machine) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.nn.LSTM(4, 4).cuda()(torch.randn(2, 2, 4, device="cuda"))
