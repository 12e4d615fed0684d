"""Sums, means, norms, extremes: the staging buffers of reductions that more than one block of threads works on.

Where a reduction has few outputs and many inputs, CUDA splits each output over several blocks, which leave their parts
in global memory from the caching allocator. Source: setReduceConfig and gpu_reduce_kernel in
aten/src/ATen/native/cuda/Reduce.cuh; the order of dimensions: TensorIteratorBase::reorder_dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from flatout.gpu.capability import limits
from flatout.virtual import machine as machines
from flatout.virtual.dispatch import Operator, generic, stands_in
from flatout.virtual.kernels.target import Temporaries, compute_capability, multiprocessors
from flatout.virtual.tensor import HOST_INDEX, native_index

MAX_THREADS = 512
WARP = 32
VECTOR = 4
MIN_VALUES, MAX_VALUES = 16, 256
SEMAPHORE_BYTES = 4
INDEX_BYTES = 2**31


class Staging(NamedTuple):
    """Global memory of one reduction, in bytes."""

    buffer_bytes: int
    semaphore_bytes: int


NONE = Staging(0, 0)


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _last_power_of_two(n: int) -> int:
    return max(1, 1 << (n.bit_length() - 1))


class _Loop(NamedTuple):
    """The dimensions of a reduction as the kernel sees them: the reduced ones first, neighbours joined."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    reduced: int


def _loop(size: Sequence[int], stride: Sequence[int], dims: frozenset[int]) -> _Loop:
    kept_step = 1
    out: dict[int, int] = {}
    for d in reversed(range(len(size))):
        out[d] = 0 if d in dims else kept_step
        if d not in dims:
            kept_step *= size[d]
    order = [d for d in range(len(size)) if size[d] != 1]
    order.sort(key=lambda d: (d not in dims, stride[d] if d in dims else out[d]))
    sizes: list[int] = []
    strides: list[int] = []
    outs: list[int] = []
    for d in order:
        if sizes and sizes[-1] * strides[-1] == stride[d] and sizes[-1] * outs[-1] == out[d]:
            sizes[-1] *= size[d]
            continue
        sizes.append(size[d])
        strides.append(stride[d])
        outs.append(out[d])
    return _Loop(tuple(sizes), tuple(strides), sum(1 for o in outs if o == 0))


@lru_cache(maxsize=8192)
def staging(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dims: frozenset[int],
    partial_bytes: int,
    vector: int,
    processors: int,
    threads_per_processor: int,
    offset: int = 0,
) -> Staging:
    """The staging memory of a reduction of a tensor of that shape (strides in elements) over `dims`.

    `partial_bytes` is the size of one partial result, `vector` how many values a thread loads at once.
    """
    loop = _loop(size, stride, dims)
    inputs, outputs = 1, 1
    for position, n in enumerate(loop.sizes):
        if position < loop.reduced:
            inputs *= n
        else:
            outputs *= n
    if inputs * outputs == 0 or not loop.sizes:
        return NONE
    along_input = loop.reduced == len(loop.sizes) or (loop.reduced > 0 and loop.strides[0] < loop.strides[loop.reduced])
    if along_input:
        width, height, fastest = inputs, outputs, loop.strides[0]
    else:
        width, height, fastest = outputs, inputs, loop.strides[loop.reduced]
    output_vector = 1
    if fastest == 1:
        if along_input and width > 128 and loop.reduced == 1 and vector >= VECTOR:
            width //= VECTOR
        elif not along_input:
            output_vector = _output_vector(loop, offset)
            width //= output_vector
    limit = MAX_THREADS // output_vector
    wide = _last_power_of_two(width) if width < limit else limit
    high = _last_power_of_two(height) if height < limit else limit
    block_width = min(wide, WARP)
    block_height = min(high, limit // block_width)
    block_width = min(wide, limit // block_height)
    step_input, step_output = (block_width, 1) if along_input else (1, block_width)
    values = _up(inputs, step_input)
    splits_rows = values >= block_height * MIN_VALUES or values >= MAX_VALUES
    if splits_rows:
        step_input *= block_height
    else:
        step_output *= block_height
    values = _up(inputs, step_input)
    grid = _up(outputs // output_vector, step_output)
    target = processors * (threads_per_processor // (block_width * block_height))
    if not splits_rows or values < MAX_VALUES or grid > target:
        return NONE
    blocks = max(min(_up(target, grid), _up(values, MIN_VALUES)), _up(values, MAX_VALUES))
    if blocks <= 1:
        return NONE
    buffer = partial_bytes * outputs * blocks
    if not along_input:
        buffer *= block_width * output_vector
    return Staging(buffer, SEMAPHORE_BYTES * grid)


def _output_vector(loop: _Loop, offset: int) -> int:
    vector = VECTOR
    numbers = [offset, loop.sizes[loop.reduced]]
    numbers += [stride for position, stride in enumerate(loop.strides) if position != loop.reduced]
    for number in numbers:
        while number % vector:
            vector //= 2
    return vector


class _Kind(NamedTuple):
    """How one operator reduces: bytes of a partial result (0: of its accumulator), values loaded at once."""

    partial_bytes: int = 0
    vector: int = VECTOR
    keeps_type: bool = False


_SUM, _EXTREME, _ARG, _MOMENTS = _Kind(), _Kind(keeps_type=True), _Kind(partial_bytes=16), _Kind(16, 2)
_WIDE = {torch.float64: 8, torch.int64: 8, torch.complex64: 8, torch.complex128: 16}
# Integers and Booleans are summed as int64 after a conversion of their own kernel.
_KINDS = {
    "sum": _SUM, "sum.dim_IntList": _SUM, "sum.IntList_out": _SUM, "mean.dim": _SUM, "mean.out": _SUM, "nansum": _SUM,
    "prod": _SUM, "prod.dim_int": _SUM, "linalg_vector_norm": _SUM, "norm.ScalarOpt_dim": _SUM,
    "norm.ScalarOpt_dim_dtype": _SUM, "amax": _EXTREME, "amin": _EXTREME, "max": _EXTREME, "min": _EXTREME,
    "all": _EXTREME, "all.dim": _EXTREME, "any": _EXTREME, "any.dim": _EXTREME, "argmax": _ARG, "argmin": _ARG,
    "max.dim": _ARG, "min.dim": _ARG, "var.correction": _MOMENTS, "std.correction": _MOMENTS,
    "var_mean.correction": _MOMENTS, "std_mean.correction": _MOMENTS,
}  # fmt: skip
_DIM_PLACE = {"linalg_vector_norm": 2, "norm.ScalarOpt_dim": 2, "norm.ScalarOpt_dim_dtype": 2}
_WITHOUT_DIM = frozenset({"sum", "prod", "max", "min", "all", "any", "nansum"})


def _dims_of(name: str, tensor: torch.Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> frozenset[int]:
    place = _DIM_PLACE.get(name, 1)
    given: Any = kwargs.get("dim", args[place] if len(args) > place and name not in _WITHOUT_DIM else None)
    if given is None or isinstance(given, bool) or (isinstance(given, (list, tuple)) and not given):
        return frozenset(range(tensor.dim()))
    wanted = given if isinstance(given, (list, tuple)) else (given,)
    return frozenset(d % max(tensor.dim(), 1) for d in wanted)


@stands_in(*_KINDS)
def reduce(op: Operator, *args: Any, **kwargs: Any) -> Any:
    machines.current().operations += 1
    result = generic(op, args, kwargs)
    tensor = args[0]
    index = native_index(tensor)
    if 0 < index <= HOST_INDEX and tensor.numel() > MAX_VALUES:
        name = op.name[len("aten::") :]
        take_staging(tensor, _dims_of(name, tensor, args, kwargs), _KINDS[name], index)
    return result


def take_staging(tensor: torch.Tensor, dims: frozenset[int], kind: Any, index: int) -> None:
    """Take and give back the staging memory of one reduction."""
    own = tensor.element_size()
    partial = kind.partial_bytes or (own if kind.keeps_type else _WIDE.get(tensor.dtype, 4))
    per_processor = limits(compute_capability(index)).max_threads_per_multiprocessor
    needed = staging(
        tuple(tensor.shape), tensor.stride(), dims, partial, kind.vector, multiprocessors(index), per_processor,
        tensor.storage_offset(),
    )  # fmt: skip
    if needed.buffer_bytes and tensor.numel() * own < INDEX_BYTES:
        with Temporaries(index) as temporaries:
            temporaries.take(needed.buffer_bytes)
            temporaries.take(needed.semaphore_bytes)
