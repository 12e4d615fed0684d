"""Sums, means, extremes and norms: the memory that their one CUDA kernel takes between thread blocks.

Source: aten/src/ATen/native/cuda/Reduce*.cu for what each accumulates; the division of work is in `reduction_launch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.gpu.capability import known_capabilities, limits
from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.kernels.reduction_launch import global_bytes, loop_over, parts
from flatout.virtual.kernels.target import Temporaries, compute_capability, multiprocessors
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import HOST_INDEX, native_index

_HALF = (torch.float16, torch.bfloat16)
_USUAL_THREADS = 2048  # that one multiprocessor runs at once, where the compute capability is not in the table
_WELFORD_BYTES = 16  # mean, sum of squares and two counts, for single precision; 32 for double
_known: dict[Any, tuple[int, int]] = {}


def _accumulator_bytes(dtype: torch.dtype) -> int:
    return 4 if dtype in _HALF else dtype.itemsize


def _with_index_bytes(dtype: torch.dtype) -> int:
    """A value and where it was found."""
    return 8 + max(dtype.itemsize, 8)


def _dimensions(chosen: Any, rank: int) -> frozenset[int]:
    if chosen is None or (isinstance(chosen, (list, tuple)) and not chosen):
        return frozenset(range(rank))
    numbers = chosen if isinstance(chosen, (list, tuple)) else (chosen,)
    return frozenset(n % rank for n in numbers) if rank else frozenset()


def _threads(capability: tuple[int, int]) -> int:
    known = capability in known_capabilities()
    return limits(capability).max_threads_per_multiprocessor if known else _USUAL_THREADS


def _between_blocks(tensor: torch.Tensor, chosen: Any, accumulator: int, vector: int = 4) -> tuple[int, int]:
    index = native_index(tensor)
    threads = _threads(compute_capability(index)) * multiprocessors(index)
    layout = (tensor.shape, tensor.stride(), tensor.storage_offset() % 4, tensor.itemsize)
    key = (*layout, str(chosen), accumulator, vector, threads)
    found = _known.get(key)
    if found is None:
        loop = loop_over(tensor.shape, tensor.stride(), _dimensions(chosen, tensor.dim()))
        offset = int(tensor.storage_offset())
        pieces = parts(loop, tensor.itemsize)
        found = _known[key] = max(global_bytes(piece, accumulator, threads, vector, offset) for piece in pieces)
    return found


def reduce(op: Operator, args: Any, kwargs: Any, chosen: Any, accumulator: int, vector: int = 4) -> Any:
    """The operation's result, and the temporaries of its kernel after it."""
    machines.current().operations += 1
    tensor = args[0]
    result = generic(op, args, kwargs)
    if tensor.numel() and 0 < native_index(tensor) <= HOST_INDEX:
        _scratch(native_index(tensor), _between_blocks(tensor, chosen, accumulator, vector))
    return result


def _scratch(index: int, sizes: Sequence[int]) -> None:
    if not sizes[0]:
        return
    with Temporaries(index) as temporaries:
        for nbytes in sizes:
            temporaries.take(nbytes)


def _second(args: Any, kwargs: Any, name: str = "dim", position: int = 1) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


@stands_in("sum.dim_IntList", "mean.dim", "nansum", "prod", "prod.dim_int")
def add_up(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """A small type is converted first, except half precision into float32."""
    tensor, wanted = args[0], kwargs.get("dtype")
    if wanted is None and not (tensor.is_floating_point() or tensor.is_complex()):
        wanted = torch.int64
    chosen = _second(args, kwargs) if op.name != "aten::prod" else None
    if wanted in (None, tensor.dtype) or (tensor.dtype in _HALF and wanted is torch.float32):
        return reduce(op, args, kwargs, chosen, _accumulator_bytes(tensor.dtype))
    with Temporaries(native_index(tensor)) as temporaries:
        temporaries.take(tensor.numel() * wanted.itemsize)
        return reduce(op, args, kwargs, chosen, _accumulator_bytes(wanted))


@stands_in("amax", "amin", "any.dims", "all.dims", "any.dim", "all.dim")
def extreme(op: Operator, *args: Any, **kwargs: Any) -> Any:
    return reduce(op, args, kwargs, _second(args, kwargs), args[0].dtype.itemsize)


@stands_in("max", "min", "any", "all")
def extreme_of_all(op: Operator, *args: Any, **kwargs: Any) -> Any:
    return reduce(op, args, kwargs, None, args[0].dtype.itemsize)


@stands_in("max.dim", "min.dim", "argmax", "argmin")
def extreme_and_place(op: Operator, *args: Any, **kwargs: Any) -> Any:
    return reduce(op, args, kwargs, _second(args, kwargs), _with_index_bytes(args[0].dtype))


@stands_in("linalg_vector_norm")
def norm(op: Operator, *args: Any, **kwargs: Any) -> Any:
    chosen = _second(args, kwargs, position=2)
    return reduce(op, args, kwargs, chosen, _accumulator_bytes(args[0].dtype))


@stands_in("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def spread(op: Operator, *args: Any, **kwargs: Any) -> Any:
    accumulator = _WELFORD_BYTES * (2 if args[0].dtype is torch.float64 else 1)
    return reduce(op, args, kwargs, _second(args, kwargs), accumulator, vector=2)
