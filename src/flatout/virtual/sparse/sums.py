"""Sums with a sparse tensor: a step of an optimizer (dense + sparse) and a second gradient (sparse + sparse).

Source: aten/src/ATen/native/sparse/cuda/SparseCUDATensorMath.cu (``add_out_sparse_cuda``, ``mul_out_sparse_cuda``).
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.errors import UnsupportedError
from flatout.virtual import machine as machines
from flatout.virtual import values as contents
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.target import scratch
from flatout.virtual.sparse.coalescing import coalesce, flattened
from flatout.virtual.sparse.tensors import become, coo, is_coo, run_as_on_the_cpu
from flatout.virtual.tensor import native_index

_aten: Any = torch.ops.aten


def add_out(first: torch.Tensor, second: torch.Tensor, *, alpha: Any = 1, out: torch.Tensor) -> torch.Tensor:
    """``out = first + alpha * second``. The texts of the errors are PyTorch's own."""
    if not is_coo(second):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not is_coo(first):
        return _dense_and_sparse(first, second, alpha, out)
    if first.shape != second.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but {list(first.shape)} != {list(second.shape)}"
        )
    if not second._nnz():
        return out if out is first else out.copy_(first)
    if not first._nnz():
        scaled = second if alpha == 1 else second * alpha
        return out.copy_(scaled)
    if first.sparse_dim() != second.sparse_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{first.sparse_dim()} sparse dimensions while 'other' has {second.sparse_dim()} sparse dimensions"
        )
    common = torch.result_type(first, second)
    values = second._values().to(common)
    if alpha != 1:
        values = values * alpha
    indices = torch.cat((first._indices(), second._indices()), 1)
    joined = coo(indices, torch.cat((first._values().to(common), values)), second.shape)
    if out.dtype is not common:
        joined = coalesce(joined)
        joined = coo(joined._indices(), joined._values().to(out.dtype), second.shape)
    if joined._nnz() > joined.numel():  # what keeps a gradient that is added to again and again from growing for ever
        joined = coalesce(joined)
    return become(out, joined)


def _dense_and_sparse(dense: torch.Tensor, sparse: torch.Tensor, alpha: Any, out: torch.Tensor) -> torch.Tensor:
    if dense.shape != sparse.shape:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(dense.shape)} while other has size {list(sparse.shape)}"
            " (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    if not sparse._nnz():
        return out if out is dense else out.resize_as_(dense).copy_(dense)
    common = torch.result_type(dense, sparse)
    result = out if out.dtype is common else torch.empty_like(dense, dtype=common)
    buffer = dense.to(common)
    values = sparse._values().to(common)
    if result is not buffer:
        result.resize_as_(dense)
        result.copy_(buffer)
    elif not result.is_contiguous():
        raise RuntimeError(
            "add: CUDA dense-sparse addition with a non-contiguous output tensor does not work; shout if you need it"
            " (see https://github.com/pytorch/pytorch/issues/1521 )"
        )
    if values.numel():
        _add_rows(result, sparse, values, alpha)
    return out if result is out else out.copy_(result)


def _add_rows(result: torch.Tensor, sparse: torch.Tensor, values: torch.Tensor, alpha: Any) -> None:
    if sparse.is_coalesced():
        # One kernel adds each value in its place.
        machines.current().operations += 1
        if sparse.dense_dim():
            scratch(native_index(result), copy_bytes(values, torch.contiguous_format))
        _write_rows(result, sparse._indices(), values, alpha)
        return
    rows = 1
    for n in sparse.shape[: sparse.sparse_dim()]:
        rows *= n
    places = flattened(sparse._indices(), sparse.shape)
    result.view(rows, -1).index_add_(0, places, values.reshape(values.shape[0], -1), alpha=alpha)


def _write_rows(result: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, alpha: Any) -> None:
    known, known_indices, known_values = (contents.real(tensor) for tensor in (result, indices, values))
    if known is None or known_indices is None or known_values is None:
        contents.forget(result)
    else:
        scaled = known_values if alpha == 1 else known_values * alpha
        known.index_put_(tuple(known_indices), scaled, accumulate=True)


def mul_out(first: torch.Tensor, second: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """``out = first * second`` where one of them is dense or a number: C++'s function for that is the CPU's too."""
    if is_coo(first) and is_coo(second) and first.dim() and second.dim():
        raise UnsupportedError(
            "aten::mul.out of two sparse tensors is not supported on the virtual GPU: how many values are left hangs on"
            " their indices; multiply dense tensors, or the values of one"
        )
    result: torch.Tensor = run_as_on_the_cpu("mul.out", native_index(out), (first, second), {"out": out})
    return result
