from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from metering import Meter, blocks
from torch import nn

from flatout.virtual.kernels import layouts, workspaces

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

LAST = torch.channels_last


@pytest.mark.parametrize("input_last", [False, True])
@pytest.mark.parametrize("weight_last", [False, True])
def test_channels_last_if_either_suggests_it(machine: Machine, input_last: bool, weight_last: bool) -> None:
    layer = nn.Conv2d(8, 16, 3).cuda()
    x = torch.randn(2, 8, 8, 8, device="cuda")
    if weight_last:
        layer = layer.to(memory_format=LAST)
    if input_last:
        x = x.to(memory_format=LAST)
    x.requires_grad_()
    y = layer(x)
    expected = input_last or weight_last
    assert y.is_contiguous(memory_format=LAST) is expected
    y.sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is not None
    assert x.grad.stride() == x.stride()  # autograd gives a gradient the layout of its leaf
    assert layer.weight.grad.shape == layer.weight.shape


def test_float64_is_never_channels_last(machine: Machine) -> None:
    layer = nn.Conv2d(8, 16, 3, dtype=torch.float64).cuda().to(memory_format=LAST)
    assert layer(torch.randn(2, 8, 8, 8, device="cuda", dtype=torch.float64)).is_contiguous()


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (lambda: nn.Conv1d(8, 16, 3), (2, 8, 20), (2, 16, 18)),
        (lambda: nn.Conv3d(8, 16, 3), (2, 8, 6, 6, 6), (2, 16, 4, 4, 4)),
        (lambda: nn.ConvTranspose2d(8, 4, 3, 2), (2, 8, 8, 8), (2, 4, 17, 17)),
        (lambda: nn.Conv2d(8, 8, 3, groups=8, padding=1), (2, 8, 8, 8), (2, 8, 8, 8)),
        (lambda: nn.Conv2d(8, 4, 1, bias=False), (0, 8, 8, 8), (0, 4, 8, 8)),
        (lambda: nn.Conv2d(8, 4, 3, dilation=2, stride=2), (8, 9, 9), (4, 3, 3)),
    ],
)
def test_shapes_forward_and_backward(
    machine: Machine, layer: Callable[[], nn.Module], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    module = layer().cuda()
    x = torch.randn(*shape, device="cuda", requires_grad=True)
    y = module(x)
    assert y.shape == expected
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert parameter.grad.shape == parameter.shape


def test_copies_and_workspace_are_temporary(machine: Machine, meter: Meter) -> None:
    x = torch.randn(2, 8, 32, 32, device="cuda", dtype=torch.float16)
    w = torch.randn(16, 8, 3, 3, device="cuda", dtype=torch.float16)
    y = meter(lambda: F.conv2d(x, w, padding=1))
    sizes = [2 * t.numel() for t in (x, w, y)]
    # Kernels for tensor cores want channels last: the three tensors are turned round in the workspace.
    assert meter.kept_bytes == blocks(sizes[2])
    assert meter.peak_bytes == blocks(sizes[2], sum(sizes))
    last = x.to(memory_format=LAST)
    meter(lambda: F.conv2d(last, w, padding=1))
    assert meter.peak_bytes == blocks(sizes[2], sizes[1])


def test_the_bound_covers_larger_workspaces(machine: Machine) -> None:
    memory = machine.gpus[0].memory
    x = torch.randn(8, 64, 64, 64, device="cuda")
    F.conv2d(x, torch.randn(64, 64, 3, 3, device="cuda"), padding=1)
    assert memory.upper_bound_bytes > 0
    space = workspaces.convolution(
        1 << 30, 1 << 20, 1 << 30, 4, channels_last=False, tensor_cores=False, pointwise=False
    )
    assert space == (0, workspaces.UPPER_LIMIT_BYTES)
    assert workspaces.convolution(8, 8, 8, 4, channels_last=True, tensor_cores=True, pointwise=True) == (0, 0)


def test_double_backward(machine: Machine) -> None:
    x = torch.randn(2, 8, 6, 6, device="cuda", requires_grad=True)
    w = torch.randn(4, 8, 3, 3, device="cuda", requires_grad=True)
    (grad,) = torch.autograd.grad(F.conv2d(x, w).sum(), x, create_graph=True)
    grad.pow(2).sum().backward()
    assert w.grad is not None


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m(torch.randn(2, 8, 8, 8)), r"\(torch.FloatTensor\) and weight type \(torch.cuda.FloatTensor\)"),
        (
            lambda m: m(torch.randn(2, 4, 8, 8, device="cuda")),
            r"expected input\[2, 4, 8, 8\] to have 8 channels, but got 4",
        ),
        (lambda m: m(torch.randn(2, 8, 2, 8, device="cuda")), r"per channel: \(2 x 8\). Kernel size: \(3 x 3\)"),
        (lambda m: m(torch.randn(2, 8, 8, 8, device="cuda").half()), r"\(c10::Half\) and bias type|HalfTensor"),
    ],
)
def test_errors(machine: Machine, call: Callable[[nn.Module], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(nn.Conv2d(8, 16, 3).cuda())


@pytest.mark.parametrize(
    ("size", "order"), [((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 1, 4, 5), (0, 1, 2, 3)), ((1, 3, 1, 1), (0, 2, 3, 1))]
)
def test_formats_agree_with_pytorch(size: tuple[int, ...], order: tuple[int, ...]) -> None:
    tensor = torch.empty([size[d] for d in order]).permute([order.index(d) for d in range(4)])
    expected = torch._prims_common.suggest_memory_format(tensor)
    assert layouts.suggest(tensor) == expected
    contiguous = torch.empty(size)
    assert layouts.suggest(contiguous) == torch._prims_common.suggest_memory_format(contiguous)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_batch_norm_goes_to_cudnn(machine: Machine, meter: Meter, dtype: torch.dtype) -> None:
    layer = nn.BatchNorm2d(8).cuda()
    x = torch.randn(2, 8, 16, 16, device="cuda", dtype=dtype, requires_grad=True)
    y = meter(lambda: layer(x))
    assert type(y.grad_fn).__name__ == "CudnnBatchNormBackward0"
    assert layer(x.to(memory_format=LAST)).is_contiguous(memory_format=LAST)
    y.sum().backward()
    assert x.grad is not None


def test_batch_norm_of_bfloat16_and_of_two_dimensions_is_cuda_s_own(machine: Machine) -> None:
    layer = nn.BatchNorm2d(8).cuda()
    y = layer(torch.randn(2, 8, 4, 4, device="cuda", dtype=torch.bfloat16, requires_grad=True))
    assert type(y.grad_fn).__name__ == "NativeBatchNormBackward0"
    flat = nn.BatchNorm1d(8).cuda()(torch.randn(4, 8, device="cuda", requires_grad=True))
    assert type(flat.grad_fn).__name__ == "NativeBatchNormBackward0"


def test_pooling_keeps_the_layout_and_int64_indices(machine: Machine, meter: Meter) -> None:
    x = torch.randn(2, 8, 16, 16, device="cuda").to(memory_format=LAST).requires_grad_()
    y = meter(lambda: F.max_pool2d(x, 2))
    assert y.is_contiguous(memory_format=LAST)
    assert meter.kept_bytes == blocks(4 * y.numel(), 8 * y.numel())


def test_a_training_net_of_every_layer(machine: Machine) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2),
        nn.InstanceNorm2d(8), nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    ).cuda()  # fmt: skip
    net(torch.randn(2, 3, 16, 16, device="cuda")).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
