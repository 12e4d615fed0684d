"""Normalization as CUDA runs it: cuDNN's batch norm, the fused RMS norm, what group norm keeps, the fused weight norm.

Sources: aten/src/ATen/native/Normalization.cpp, native/cudnn/BatchNorm.cpp, native/layer_norm.cpp,
native/group_norm.cpp, native/WeightNorm.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, generic, taken_apart
from flatout.virtual.kernels.attention_choice import HALF
from flatout.virtual.kernels.factories import stride_for
from flatout.virtual.kernels.layouts import copy_bytes, suggest
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import composes, stands_in
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten
CUDNN_LEAST_EPSILON = 1e-5
CUDNN_MOST_SAMPLES_TRAINING = 880801
CUDNN_MOST_SAMPLES_EVALUATION = 65535
INT32_MAX = 2**31 - 1
NATIVE, CUDNN = 0, 1


def uses_cudnn(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    eps: float,
) -> bool:
    """Whether CUDA gives this batch norm to cuDNN (``_select_batch_norm_backend``)."""
    if weight is None or bias is None or not torch.backends.cudnn.enabled or input.dim() < 3:
        return False
    if torch.bfloat16 in (input.dtype, weight.dtype) or (
        input.dtype is torch.float16 and weight.dtype is not torch.float32
    ):
        return False
    tracked = running_mean is not None and running_var is not None
    if not tracked and not (running_mean is None and running_var is None and training):
        return False
    most = CUDNN_MOST_SAMPLES_TRAINING if training else CUDNN_MOST_SAMPLES_EVALUATION
    return input.shape[0] <= most and eps >= CUDNN_LEAST_EPSILON and 0 < input.numel() < INT32_MAX


@composes("_batch_norm_impl_index")
def batch_norm(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    if cudnn_enabled and uses_cudnn(input, weight, bias, running_mean, running_var, training, eps):
        input = input.contiguous(memory_format=suggest(input))
        return (
            *_aten.cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps),
            CUDNN,
        )
    return taken_apart(op, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)


@stands_in("cudnn_batch_norm")
def cudnn_batch_norm(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    machines.current().operations += 1
    index = native_index(input)
    output = empty(input.shape, input.dtype, index, stride_for(input.shape, suggest(input)))
    kept = (input.shape[1],) if training else (0,)
    mean, variance = empty(kept, weight.dtype, index), empty(kept, weight.dtype, index)
    return output, mean, variance, empty((0,), torch.uint8, index)


@stands_in("cudnn_batch_norm_backward")
def cudnn_batch_norm_backward(
    op: Operator, input: torch.Tensor, grad_output: torch.Tensor, weight: torch.Tensor, *rest: Any
) -> Any:
    machines.current().operations += 1
    index = native_index(input)
    layout = suggest(input)
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(grad_output, layout))
        grad = empty(input.shape, input.dtype, index, stride_for(input.shape, layout))
        return grad, empty(weight.shape, weight.dtype, index), empty(weight.shape, weight.dtype, index)


@stands_in("_fused_rms_norm")
def rms_norm(
    op: Operator,
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None,
    eps: float | None,
) -> Any:
    machines.current().operations += 1
    index = native_index(input)
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(input, torch.contiguous_format))
        output = empty(input.shape, input.dtype, index)
        outer = (*input.shape[: input.dim() - len(normalized_shape)], *(1 for _ in normalized_shape))
        return output, empty(outer, torch.float32 if input.dtype in HALF else input.dtype, index)


_BACKWARD = ("aten::native_layer_norm_backward", "aten::_fused_rms_norm_backward")


@stands_in("native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm(op: Operator, *args: Any, **options: Any) -> Any:
    """Contiguous copies come first: of the input, and in backward of the gradient before it.

    Source: native/cuda/layer_norm_kernel.cu.
    """
    machines.current().operations += 1
    with Temporaries(native_index(args[0])) as temporaries:
        for tensor in args[: 2 if op.name in _BACKWARD else 1]:
            temporaries.take(copy_bytes(tensor, torch.contiguous_format))
        return generic(op, args, options)


@stands_in("native_group_norm")
def group_norm(
    op: Operator,
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    samples: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> Any:
    machines.current().operations += 1
    index = native_index(input)
    mixed = input.dtype in HALF and weight is not None and weight.dtype is torch.float32
    kept = torch.float32 if mixed else input.dtype
    output = empty(input.shape, input.dtype, index)
    return output, empty((samples, groups), kept, index), empty((samples, groups), kept, index)


@composes("_weight_norm")
def weight_norm(op: Operator, v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> Any:
    if dim in (0, v.dim() - 1):
        return _aten._weight_norm_interface(v.contiguous(), g.contiguous(), dim)[0]
    return taken_apart(op, v, g, dim)
