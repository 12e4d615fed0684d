"""Memory for new tensors: ``empty`` and ``empty_strided``, which every other factory of PyTorch comes down to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import values
from flatout.virtual.dispatch import index_named, new_allocation
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import contiguous_stride, new_meta, new_tensor, span_bytes

_CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}


def stride_for(size: Sequence[int], memory_format: torch.memory_format | None) -> tuple[int, ...]:
    """Strides, in elements, of a new tensor in that memory format."""
    if memory_format not in _CHANNELS_LAST:
        return contiguous_stride(size)
    order = _CHANNELS_LAST[memory_format]
    if len(order) != len(size):
        raise RuntimeError(f"required rank {len(order)} tensor to use {str(memory_format)[6:]} format")
    inner = contiguous_stride([size[d] for d in order])
    stride = [0] * len(size)
    for place, d in enumerate(order):
        stride[d] = inner[place]
    return tuple(stride)


def make(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None, device: torch.device | None
) -> torch.Tensor:
    """A new tensor; virtual unless the script itself asked for ``meta``."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    index = index_named(device)
    if index == 0:
        return new_meta(size, stride, dtype)
    allocation = new_allocation(span_bytes(size, stride, dtype.itemsize), index)
    values.blank(allocation, dtype)
    return new_tensor(allocation, size, stride, dtype)


@stands_in("empty.memory_format")
def empty(
    op: Operator,
    size: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    return make(size, stride_for(size, memory_format), dtype, device)


@stands_in("empty_strided")
def empty_strided(
    op: Operator,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    return make(size, stride, dtype, device)


@stands_in("_efficientzerotensor")
def efficient_zeros(
    op: Operator,
    size: Sequence[int],
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Zeros that take no memory on a real GPU; here they are ordinary ones."""
    return make(size, contiguous_stride(size), dtype, device).zero_()


@stands_in("tril_indices", "triu_indices")
def triangle(
    op: Operator,
    row: int,
    col: int,
    offset: int = 0,
    dtype: torch.dtype | None = torch.int64,
    layout: Any = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Indices of a triangle, shape ``(2, elements)``: their values are real."""
    content = op.overload(row, col, offset, dtype=dtype, device=torch.device("cpu"))
    result = make(content.shape, content.stride(), content.dtype, device)
    if content.nbytes <= values.limit_bytes(content.dtype):
        values.know(result, content)
    return result
