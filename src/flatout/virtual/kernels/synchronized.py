"""The parts of synchronized batch norm, and other kernels that only CUDA has and whose outputs are plain.

Source: aten/src/ATen/native/cuda/Normalization.cu; the accumulator of half precision is float32.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, generic
from flatout.virtual.kernels.attention_choice import HALF
from flatout.virtual.kernels.factories import stride_for
from flatout.virtual.kernels.layouts import suggest
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index


def _channels(tensor: torch.Tensor, count: int) -> list[torch.Tensor]:
    """That many new tensors of one number a channel, in the accumulator's type."""
    dtype = torch.float32 if tensor.dtype in HALF else tensor.dtype
    index = native_index(tensor)
    return [empty((tensor.shape[1],), dtype, index) for _ in range(count)]


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return empty(tensor.shape, tensor.dtype, native_index(tensor), stride_for(tensor.shape, suggest(tensor)))


@stands_in("batch_norm_stats")
def stats(op: Operator, input: torch.Tensor, eps: float) -> Any:
    machines.current().operations += 1
    return tuple(_channels(input, 2))


@stands_in("batch_norm_gather_stats", "batch_norm_gather_stats_with_counts")
def gather(op: Operator, input: torch.Tensor, *rest: Any) -> Any:
    machines.current().operations += 1
    return tuple(_channels(input, 2))


@stands_in("batch_norm_elemt", "batch_norm_backward_elemt")
def elements(op: Operator, *args: Any) -> torch.Tensor:
    machines.current().operations += 1
    return _like(args[0])


@stands_in("batch_norm_backward_reduce")
def backward_reduce(
    op: Operator,
    grad_out: torch.Tensor,
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Any:
    machines.current().operations += 1
    sums = _channels(input, 2) if input_g else [None, None]
    index = native_index(input)
    dtype = mean.dtype if weight is None else weight.dtype
    grads = [empty((input.shape[1],), dtype, index) if wanted else None for wanted in (weight_g, bias_g)]
    return (*sums, *grads)


@stands_in("_chunk_cat", "_chunk_cat.out", "_grouped_mm")
def by_shape(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """One kernel on CUDA; the composition that PyTorch has for other devices would take more memory."""
    machines.current().operations += 1
    return generic(op, args, kwargs)
