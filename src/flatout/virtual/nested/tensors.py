"""What a virtual nested tensor is, and how a padded batch becomes one and comes back.

It is C++'s own (``NestedTensorImpl``): sizes on the host, and one buffer, the storage of a virtual tensor. C++ gives it
the keys of that tensor. Only as a *view* of the buffer can one be made here: anything else asks for a CUDA device.

Sources: aten/src/ATen/native/nested/NestedTensorMath.cpp (``NestedTensor_nested_tensor_from_mask``),
nested/cuda/NestedTensorTransformerFunctions.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.tensor import native_index

NESTED_CPU: Any = torch._C.DispatchKey.NestedTensorCPU
_aten: Any = torch.ops.aten
_INT_BYTES = 4


def over(buffer: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """A nested tensor over a buffer of one dimension. `sizes`, on the host, has a row for each tensor in it."""
    strides, offsets = _aten._nested_compute_contiguous_strides_offsets(sizes)
    made: torch.Tensor = _aten._nested_view_from_buffer(buffer, sizes, strides, offsets)
    return made


def sizes_of(nested: torch.Tensor) -> torch.Tensor:
    """The sizes of its tensors, a row each, on the host."""
    return nested._nested_tensor_size()


def buffer_of(nested: torch.Tensor) -> torch.Tensor:
    """Its content in one dimension."""
    content: torch.Tensor = _aten.values.default._op_dk(NESTED_CPU, nested)
    return content


def from_padded(padded: torch.Tensor, sizes: torch.Tensor, fuse_transform_0213: bool = False) -> torch.Tensor:
    """``_nested_from_padded``. Float32 and float16 have a kernel; other types are selected by a mask of bytes."""
    machines.current().operations += 1
    index, count = native_index(padded), int(sizes.prod(1).sum())
    if padded.dtype in (torch.float32, torch.float16):
        buffer = empty((count,), padded.dtype, index)
        _describe_to_gpu(index, sizes.numel() + padded.dim() + len(sizes) + 1)
        return over(buffer, sizes)
    with Temporaries(index) as temporaries:
        for _ in sizes:
            temporaries.take(padded.numel() // len(sizes))
        temporaries.take(padded.numel())
        buffer = empty((count,), padded.dtype, index)
    return over(buffer, sizes)


def to_padded(nested: torch.Tensor, padding: float, output_size: Sequence[int] | None = None) -> torch.Tensor:
    """``Tensor.to_padded_tensor``. Types with a kernel on CUDA take one tensor; others are put together from parts."""
    sizes = sizes_of(nested)
    size = [len(sizes), *sizes.amax(0).tolist()]
    if output_size is not None:
        if len(output_size) != len(size):
            raise RuntimeError("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.")
        if any(wanted < needed for wanted, needed in zip(output_size, size, strict=True)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        size = list(output_size)
    machines.current().operations += 1
    index = native_index(nested)
    if nested.dtype in (torch.float32, torch.float64, torch.float16):
        padded = empty(size, nested.dtype, index)
        _describe_to_gpu(index, sizes.numel() + len(sizes) + 1)
        return padded
    with Temporaries(index) as temporaries:
        for _ in sizes:
            temporaries.take(math.prod(size[1:]) * nested.element_size())
        return empty(size, nested.dtype, index)


def _describe_to_gpu(index: int, count: int) -> None:
    """Sizes and offsets travel to the GPU, as so many int32, for the time of a kernel."""
    with Temporaries(index) as temporaries:
        temporaries.take(count * _INT_BYTES)
