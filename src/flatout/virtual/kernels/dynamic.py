"""Operations whose output's size hangs on values: from real values where they are carried, else an assumption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import invented, values
from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, generic
from flatout.virtual.hints import Hint
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import allocation_of, native_index


def _new_with(content: torch.Tensor, index: int) -> torch.Tensor:
    """A virtual tensor with that content (carried along where it is small)."""
    tensor = empty(content.shape, content.dtype, index, content.stride())
    if allocation_of(tensor).nbytes <= values.limit_bytes(content.dtype):
        values.know(tensor, content)
    return tensor


def _all_real(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
    found = [known for tensor in tensors if (known := values.real(tensor)) is not None]
    return found if len(found) == len(tensors) else None


def _waits(reason: str, *, invented_value: bool) -> None:
    machine = machines.current()
    machine.operations += 1
    machine.wait(reason, invented=invented_value, steered=invented_value)


@stands_in("nonzero")
def nonzero(op: Operator, tensor: torch.Tensor) -> torch.Tensor:
    """Shape ``(selected, dimensions)``, int64, with CUDA's column-major strides."""
    known = values.real(tensor)
    _waits("nonzero: the size hangs on values", invented_value=known is None)
    index = native_index(tensor)
    if known is None:
        count = invented.share_of("nonzero", tensor.numel())
        rows = empty((count, tensor.dim()), torch.int64, index, (1, max(count, 1)))
        allocation_of(rows).bounds = Hint(0, max(min(tensor.shape, default=1), 1))
        return rows
    found = known.nonzero()
    rows = empty(found.shape, torch.int64, index, (1, max(found.shape[0], 1)))
    if allocation_of(rows).nbytes <= values.limit_bytes(torch.int64):
        values.know(rows, found)
    return rows


@stands_in("masked_select")
def masked_select(op: Operator, tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    known_mask = values.real(mask)
    _waits("masked_select: the size hangs on values", invented_value=known_mask is None)
    index = native_index(tensor) or native_index(mask)
    if known_mask is None:
        return empty((invented.share_of("masked_select", shape.numel()),), tensor.dtype, index)
    known = values.real(tensor)
    if known is not None:
        return _new_with(torch.masked_select(known, known_mask), index)
    return empty((int(known_mask.expand(shape).sum()),), tensor.dtype, index)


def without_booleans(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Boolean masks become the indices of what they select, as in C++'s ``expandTensors``."""
    spread: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            rows = torch.ops.aten.nonzero.default(index)
            spread.extend(rows.select(1, d) for d in range(index.dim()))
        else:
            spread.append(index)
    return spread


@stands_in("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(op: Operator, tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    indices = on_the_gpu(without_booleans(indices), native_index(tensor))
    machines.current().operations += 1
    chosen: torch.Tensor = generic(op, (tensor, indices), {})
    return chosen


def on_the_gpu(indices: Sequence[torch.Tensor | None], index: int) -> list[torch.Tensor | None]:
    """Indices may be CPU tensors; CUDA copies them over."""
    return [one if one is None or native_index(one) or not index else _new_with(one, index) for one in indices]


@stands_in("equal")
def equal(op: Operator, tensor: torch.Tensor, other: torch.Tensor) -> bool:
    known = _all_real((tensor, other))
    same = tensor.shape == other.shape and tensor.dtype == other.dtype
    _waits("equal", invented_value=known is None)
    return torch.equal(*known) if known is not None else same


@stands_in("allclose")
def allclose(
    op: Operator,
    tensor: torch.Tensor,
    other: torch.Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    known = _all_real((tensor, other))
    _waits("allclose", invented_value=known is None)
    if known is None:
        torch.broadcast_shapes(tensor.shape, other.shape)
        machines.current().assume_that("allclose of values computed on the GPU was taken to be True")
        return True
    return torch.allclose(known[0], known[1], rtol, atol, equal_nan)


@stands_in("repeat_interleave.Tensor")
def repeat_interleave(op: Operator, repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    known = values.real(repeats)
    if output_size is None:
        _waits("repeat_interleave: the size hangs on values", invented_value=known is None)
    index = native_index(repeats)
    if known is not None:
        return _new_with(torch.repeat_interleave(known, output_size=output_size), index)
    size = output_size
    if size is None:
        size = repeats.numel()
        machines.current().assume_that("repeat_interleave: each element was taken to be repeated once")
    result = empty((size,), torch.int64, index)
    allocation_of(result).bounds = Hint(0, max(repeats.numel(), 1))
    return result


@stands_in("_unique2", "_unique", "unique_dim", "unique_consecutive", "unique_dim_consecutive")
def unique(op: Operator, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    known = values.real(tensor)
    _waits("unique: the size hangs on values", invented_value=known is None)
    index = native_index(tensor)
    if known is None:
        machines.current().assume_that("unique: all elements were taken to be different")
        known = torch.arange(tensor.numel()).view(tensor.shape).to(tensor.dtype)
        shapes = op.overload(known, *args, **kwargs)
        return tuple(empty(one.shape, one.dtype, index) for one in shapes)
    return tuple(_new_with(one, index) for one in op.overload(known, *args, **kwargs))


@stands_in("bincount")
def bincount(
    op: Operator, tensor: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    known = values.real(tensor)
    _waits("bincount: the size hangs on values", invented_value=known is None)
    index = native_index(tensor)
    known_weights = None if weights is None else values.real(weights)
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype is torch.float32 else torch.float64
    if known is None:
        hint = invented.hint_of(tensor)
        size = max(minlength, int(hint.high) if hint is not None and hint.high is not None else 1)
        machines.current().assume_that(f"bincount: {size} bins were taken to be needed")
        return empty((size,), dtype, index)
    if weights is not None and known_weights is None:
        return empty((max(int(known.max()) + 1 if known.numel() else 0, minlength),), dtype, index)
    return _new_with(torch.bincount(known, known_weights, minlength), index)


@stands_in("_linalg_check_errors")
def linalg_check_errors(op: Operator, info: torch.Tensor, *args: Any, **kwargs: Any) -> None:
    """Invented matrices are regular."""
    machines.current().wait("linear algebra: the error code is read")


@stands_in("is_pinned")
def is_pinned(op: Operator, tensor: torch.Tensor, device: torch.device | None = None) -> bool:
    return False
