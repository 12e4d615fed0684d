"""Coalescing: indices are sorted, equal ones become one, and their values are added up.

Sources: aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu (``_coalesce_sparse_cuda``); SparseTensorUtils.cpp
(``flatten_indices``); CUB's device/dispatch/dispatch_merge_sort.cuh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from flatout.virtual import machine as machines
from flatout.virtual import values as contents
from flatout.virtual.dispatch import alias, empty
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.target import Temporaries, scratch
from flatout.virtual.sparse.tensors import coo
from flatout.virtual.tensor import allocation_of, contiguous_stride, native_index

INDEX_BYTES = 8
SORT_TILE = 256 * 8
"""Pairs of int64 that a thread block of CUB's merge sort takes (PyTorch's own comparison rules radix sort out)."""


def merge_sort_bytes(count: int) -> int:
    """Temporary memory of CUB's merge sort of `count` pairs of int64, in bytes: a copy, and where each tile starts."""
    parts = ((1 + -(-count // SORT_TILE)) * 4, count * INDEX_BYTES, count * INDEX_BYTES)
    return sum(-(-part // 256) * 256 for part in parts)


def flattened(indices: torch.Tensor, size: Sequence[int], *, copy: bool = False) -> torch.Tensor:
    """Each place as one number. `indices` is of shape (sparse dims, nnz); the result of shape (nnz,)."""
    dims = indices.shape[0]
    if dims == 1:
        places = indices.squeeze(0)
        return places.clone(memory_format=torch.contiguous_format) if copy else places
    # As in C++: the strides come from the host in a tensor of their own, and the sum is of a product.
    steps = torch.tensor(contiguous_stride(size[:dims])).unsqueeze(1).to(indices.device)
    return (indices * steps).sum(0)


def coalesce(tensor: torch.Tensor) -> torch.Tensor:
    """``Tensor._coalesce``. How many different places there are is exact where the indices are known."""
    count = tensor._nnz()
    if count < 2:
        copied = tensor.clone()
        return copied._coalesced_(True)
    machine = machines.current()
    machine.operations += 1
    index = native_index(tensor)
    size, dims = tensor.shape, tensor.sparse_dim()
    values = tensor._values()
    places = flattened(tensor._indices(), size, copy=True)
    with Temporaries(index) as temporaries:
        temporaries.take(count * INDEX_BYTES)
        temporaries.take(count * INDEX_BYTES)
        scratch(index, merge_sort_bytes(count))
        known = contents.real(places)
        machine.wait("coalesce: the size hangs on values", invented=known is None)
        if known is None:
            machine.assume_that("coalesce: the indices of a sparse tensor were taken to be all different")
            kept = min(count, math.prod(size[:dims]))
        else:
            different, place_of = known.unique(return_inverse=True)
            kept = different.numel()
        rows = alias(places, (1, kept), (kept, 1))
        new_values = empty((kept, *values.shape[1:]), values.dtype, index)
        if known is not None:
            known[:kept] = different
            _know_sums(new_values, values, place_of)
        temporaries.take(copy_bytes(values, torch.contiguous_format))
        new_indices = rows
        if dims > 1:
            new_indices = empty((dims, kept), torch.int64, index)
            if known is not None:
                contents.know(new_indices, torch.stack(torch.unravel_index(different, tuple(size[:dims]))))
    return coo(new_indices, new_values, size, coalesced=True)


def _know_sums(target: torch.Tensor, values: torch.Tensor, place_of: torch.Tensor) -> None:
    """Carry the content along where it is known: value `n` is added in row ``place_of[n]``."""
    known = contents.real(values)
    if known is not None and allocation_of(target).nbytes <= contents.limit_bytes(target.dtype):
        contents.know(target, torch.zeros(target.shape, dtype=target.dtype).index_add_(0, place_of, known))
