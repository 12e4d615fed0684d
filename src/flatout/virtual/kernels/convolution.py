"""Convolutions as cuDNN runs them: its layout rule, copies into that layout, workspace, and the bias added in place.

Sources: aten/src/ATen/native/Convolution.cpp and native/cudnn/ConvShared.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, inferred
from flatout.virtual.kernels import workspaces
from flatout.virtual.kernels.attention_choice import HALF
from flatout.virtual.kernels.factories import stride_for
from flatout.virtual.kernels.layouts import copy_bytes, cudnn_format
from flatout.virtual.kernels.target import Temporaries, decided, scratch
from flatout.virtual.operators import Operator, operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

_Shape = Sequence[int]


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _uses_tensor_cores(dtype: torch.dtype, capability: tuple[int, int]) -> bool:
    if dtype in HALF:
        return capability >= (7, 0)
    return dtype is torch.float32 and capability >= (8, 0) and torch.backends.cudnn.allow_tf32


def _four_dimensional(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.unsqueeze(2) if tensor.dim() == 3 else tensor


def _format(input: torch.Tensor, weight: torch.Tensor) -> torch.memory_format:
    """A one-dimensional convolution runs as one over images of height 1."""
    return cudnn_format(_four_dimensional(input), _four_dimensional(weight))


def _new(size: _Shape, dtype: torch.dtype, index: int, layout: torch.memory_format) -> torch.Tensor:
    if len(size) == 3:
        four = (size[0], size[1], 1, size[2])
        stride = stride_for(four, layout)
        return empty(size, dtype, index, (stride[0], stride[1], stride[3]))
    return empty(size, dtype, index, stride_for(size, layout))


def _workspace(
    index: int, input: torch.Tensor, weight: torch.Tensor, output_bytes: int, layout: torch.memory_format
) -> workspaces.Workspace:
    return workspaces.convolution(
        _bytes(input),
        _bytes(weight),
        output_bytes,
        input.element_size(),
        channels_last=layout is not torch.contiguous_format,
        tensor_cores=decided(index, partial(_uses_tensor_cores, input.dtype)),
        pointwise=all(n == 1 for n in weight.shape[2:]),
    )


@stands_in("convolution", "convolution_overrideable")
def convolution(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: _Shape,
    padding: _Shape,
    dilation: _Shape,
    transposed: bool,
    output_padding: _Shape,
    groups: int,
) -> torch.Tensor:
    arguments = (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    (spec,), index = inferred(op, arguments, {})
    if not transposed and min(spec.size[2:]) <= 0:
        raise _too_large_a_kernel(input, weight, padding, dilation)
    machine = machines.current()
    machine.operations += 1
    machine.count("convolution_dtypes", str(input.dtype)[6:])
    if not torch.backends.cudnn.enabled:
        return _without_cudnn(spec, input, weight, index)
    layout = _format(input, weight)
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(_four_dimensional(input), layout))
        output = _new(spec.size, spec.dtype, index, layout)
        if output.numel():
            temporaries.take(copy_bytes(_four_dimensional(weight), layout))
            scratch(index, *_workspace(index, input, weight, _bytes(output), layout))
    return output


def _too_large_a_kernel(input: torch.Tensor, weight: torch.Tensor, padding: _Shape, dilation: _Shape) -> Exception:
    # PyTorch's own words (check_shape_forward); its shape functions say nothing in older versions.
    padded = " x ".join(str(n + 2 * p) for n, p in zip(input.shape[2:], padding))
    reach = " x ".join(str(d * (k - 1) + 1) for d, k in zip(dilation, weight.shape[2:]))
    return RuntimeError(
        f"Calculated padded input size per channel: ({padded}). Kernel size: ({reach}). "
        "Kernel size can't be greater than actual input size"
    )


@stands_in("_convolution")
def convolution_with_switches(op: Operator, *args: Any, **switches: Any) -> torch.Tensor:
    result: torch.Tensor = convolution(operator("aten::convolution"), *args[:9])
    return result


@stands_in("cudnn_convolution")
def cudnn_convolution(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor,
    padding: _Shape,
    stride: _Shape,
    dilation: _Shape,
    groups: int,
    *switches: bool,
) -> torch.Tensor:
    none = (0,) * len(padding)
    result: torch.Tensor = convolution(
        operator("aten::convolution"), input, weight, None, stride, padding, dilation, False, none, groups
    )
    return result


@stands_in("cudnn_convolution_transpose")
def cudnn_convolution_transpose(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor,
    padding: _Shape,
    output_padding: _Shape,
    stride: _Shape,
    dilation: _Shape,
    groups: int,
    *switches: bool,
) -> torch.Tensor:
    result: torch.Tensor = convolution(
        operator("aten::convolution"), input, weight, None, stride, padding, dilation, True, output_padding, groups
    )
    return result


def _without_cudnn(spec: Any, input: torch.Tensor, weight: torch.Tensor, index: int) -> torch.Tensor:
    """PyTorch's own kernels unfold one sample into columns. Source: native/cuda/ConvolutionMM2d.cu."""
    from flatout.virtual.kernels.cublas import use_handle

    output = empty(spec.size, spec.dtype, index)
    columns = 1
    for n in (*weight.shape[1:], *spec.size[2:]):
        columns *= n
    if any(n != 1 for n in weight.shape[2:]):
        scratch(index, columns * input.element_size())
    use_handle(index)
    return output


@stands_in("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(
    op: Operator,
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: _Shape | None,
    stride: _Shape,
    padding: _Shape,
    dilation: _Shape,
    transposed: bool,
    output_padding: _Shape,
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    machines.current().operations += 1
    index = native_index(input)
    layout = _format(input, weight)
    grads: list[torch.Tensor | None] = [None, None, None]
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(_four_dimensional(grad_output), layout))
        if output_mask[0]:
            grads[0] = _new(input.shape, input.dtype, index, layout)
            _gradient_scratch(index, weight, layout, input, weight, _bytes(grad_output))
        if output_mask[1]:
            grads[1] = _new(weight.shape, weight.dtype, index, layout)
            _gradient_scratch(index, input, layout, input, weight, _bytes(grad_output))
    if output_mask[2]:
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        grads[2] = empty((channels,), grad_output.dtype, index)
    return tuple(grads)


def _gradient_scratch(
    index: int,
    copied: torch.Tensor,
    layout: torch.memory_format,
    input: torch.Tensor,
    weight: torch.Tensor,
    output_bytes: int,
) -> None:
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(_four_dimensional(copied), layout))
        scratch(index, *_workspace(index, input, weight, output_bytes, layout))
