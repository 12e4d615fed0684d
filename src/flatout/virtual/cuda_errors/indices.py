"""Indices out of range. CUDA's kernels assert on the device; PyTorch reports that as a device-side assert.

Only indices whose values are known (see `flatout.virtual.values`) can be judged. Which index it was is added to the
exception as a note, since CUDA's message does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from flatout.virtual import values
from flatout.virtual.cuda_errors.driver import device_side_assert
from flatout.virtual.tensor import native_index

Guard: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], None]
_INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)


def out_of_range(index: int, size: int, what: str) -> Exception:
    """The error of a kernel that met `index` where only `size` values are possible."""
    error = device_side_assert()
    if hasattr(error, "add_note"):
        error.add_note(f"flatout: {what} {index} is out of range: there are {size}")
    return error


def _require(index: Any, low: int, size: int, what: str) -> None:
    if not isinstance(index, torch.Tensor) or index.dtype not in _INTEGERS or not index.numel():
        return
    known = values.real(index) if native_index(index) else index
    if known is None:
        return
    least, most = (int(bound) for bound in known.aminmax())
    if least < low or most >= size:
        raise out_of_range(least if least < low else most, size, what)


def _along(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``op(self, dim, index, ...)``"""
    if len(args) > 2:
        source, dim, index = args[:3]
        _require(index, 0, source.shape[dim] if source.dim() else 1, "index")


def _indexing(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``op(self, indices, ...)``, each index for one dimension; negative ones count from the end."""
    source, indices = args[:2]
    dim = 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            dim += index.dim()
            continue
        if index is not None and dim < source.dim():
            _require(index, -source.shape[dim], source.shape[dim], "index")
        dim += 1


def _classes(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``op(scores, target, weight, reduction, ignore_index)``"""
    scores, target = args[:2]
    ignored = args[4] if len(args) > 4 else kwargs.get("ignore_index", -100)
    if target.dtype not in (torch.int64, torch.uint8) or not scores.dim():
        return
    known = values.real(target) if native_index(target) else target
    if known is None or not known.numel():
        return
    least, most = (int(bound) for bound in known.aminmax())
    size = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
    if least >= 0 and most < size:
        return
    wrong = known[(known != ignored) & ((known < 0) | (known >= size))]
    if wrong.numel():
        raise out_of_range(int(wrong[0]), size, "class")


def _rows(args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """``op(weight, indices, ...)``"""
    _require(args[1], 0, args[0].shape[0], "index")


_ALONG = "index_select gather scatter.src scatter.value scatter_.src scatter_.value scatter_add scatter_add_ index_add"
GUARDS: dict[str, Guard] = {
    **{f"aten::{name}": _along for name in _ALONG.split()},
    **{f"aten::{name}": _along for name in ("index_add_", "index_copy", "index_copy_", "index_fill_.int_Scalar")},
    **{f"aten::{name}": _indexing for name in ("index.Tensor", "index_put", "index_put_", "_index_put_impl_")},
    **{f"aten::{name}": _classes for name in ("nll_loss_forward", "nll_loss2d_forward")},
    **{f"aten::{name}": _rows for name in ("_embedding_bag", "_embedding_bag_forward_only")},
}
