"""How CUDA's reduction kernel divides its work, as far as that decides whether it needs memory between thread blocks.

Source: aten/src/ATen/native/cuda/Reduce.cuh (``setReduceConfig``, ``global_memory_size``), the order that
aten/src/ATen/TensorIterator.cpp gives to dimensions, and the parts into which it cuts what is too large (``split``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WARP = 32
MAX_THREADS = 512
MIN_VALUES_PER_THREAD = 16
MAX_VALUES_PER_THREAD = 256
SEMAPHORE_BYTES = 4
MAX_OFFSET_BYTES = 2**31 - 1  # the kernels count bytes with 32 bits


class Dimension(NamedTuple):
    """One dimension of the loop: its size and the input's stride, both in elements."""

    size: int
    stride: int


class Loop(NamedTuple):
    """Reduced and kept dimensions after merging, each with the fastest first."""

    reduced: tuple[Dimension, ...]
    kept: tuple[Dimension, ...]


def loop_over(size: Sequence[int], stride: Sequence[int], reduced: frozenset[int]) -> Loop:
    """Dimensions of size 1 left out, in memory order, neighbours that lie together merged.

    Kept dimensions are in the output's order, which is row-major.
    """
    inner = sorted((Dimension(size[d], stride[d]) for d in reduced if size[d] != 1), key=lambda d: d.stride)
    kept = [Dimension(size[d], stride[d]) for d in reversed(range(len(size))) if d not in reduced and size[d] != 1]
    return Loop(tuple(_merged(inner)), tuple(_merged(kept)))


def _merged(dimensions: list[Dimension]) -> list[Dimension]:
    merged: list[Dimension] = []
    for dimension in dimensions:
        if merged and merged[-1].size * merged[-1].stride == dimension.stride:
            merged[-1] = Dimension(merged[-1].size * dimension.size, merged[-1].stride)
        else:
            merged.append(dimension)
    return merged


def parts(loop: Loop, item_bytes: int) -> Iterator[Loop]:
    """The pieces in which the kernel runs, one after the other, so that 32 bits can count their bytes.

    `item_bytes` is the size of an element. The dimension that reaches farthest is halved until each piece is small
    enough (``TensorIteratorBase::get_dim_to_split`` and ``SplitUntil32Bit``).
    """
    dimensions = (*loop.reduced, *loop.kept)
    inputs = [dimension.stride for dimension in dimensions]
    outputs = [0] * len(loop.reduced) + [_product(loop.kept[:place]) for place in range(len(loop.kept))]
    pending = [[dimension.size for dimension in dimensions]]
    while pending:
        sizes = pending.pop()
        reach = [item_bytes * (size - 1) * max(pair) for size, *pair in zip(sizes, inputs, outputs)]
        whole = max(item_bytes * sum((n - 1) * s for n, s in zip(sizes, strides)) for strides in (inputs, outputs))
        if whole < MAX_OFFSET_BYTES and math.prod(sizes) <= MAX_OFFSET_BYTES:
            pieces = [Dimension(size, dimension.stride) for size, dimension in zip(sizes, dimensions)]
            yield Loop(tuple(pieces[: len(loop.reduced)]), tuple(pieces[len(loop.reduced) :]))
            continue
        farthest = reach.index(max(reach))
        half = sizes[farthest] // 2
        for size in (sizes[farthest] - half, half):
            pending.append([*sizes[:farthest], size, *sizes[farthest + 1 :]])


def global_bytes(
    loop: Loop, accumulator_bytes: int, target_threads: int, vector: int = 4, offset: int = 0
) -> tuple[int, int]:
    """Bytes of the buffer and of the semaphores for a reduction across thread blocks; (0, 0) where each does its own.

    `accumulator_bytes` is the size of what is summed up for one output, `target_threads` how many threads the GPU
    runs at once, `vector` how many values one load of the kernel takes, `offset` the input's place in its storage in
    elements.
    """
    outputs = _product(loop.kept)
    inputs = _product(loop.reduced)
    along_input = not loop.kept or (bool(loop.reduced) and loop.reduced[0].stride < loop.kept[0].stride)
    width_limit, height_limit = (inputs, outputs) if along_input else (outputs, inputs)
    per_output = 1
    if along_input:
        fastest = loop.reduced[0].stride if loop.reduced else 1
        if fastest == 1 and width_limit >= 128 and len(loop.reduced) == 1:
            width_limit //= vector
    elif loop.kept[0].stride == 1:
        per_output = _output_vector(loop, offset)
        width_limit //= per_output

    most = MAX_THREADS // per_output
    width_power, height_power = _power(width_limit, most), _power(height_limit, most)
    width = min(width_power, WARP)
    height = min(height_power, most // width)
    width = min(width_power, most // height)

    step_input, step_output = (width, 1) if along_input else (1, width)
    if -(-inputs // step_input) < min(height * 16, MAX_VALUES_PER_THREAD):
        return 0, 0
    step_input *= height
    values = -(-inputs // step_input)
    grid = -(-(outputs // per_output) // step_output)
    target = target_threads // (width * height)
    if values < MAX_VALUES_PER_THREAD or grid > target:
        return 0, 0
    blocks = max(min(-(-target // grid), -(-values // MIN_VALUES_PER_THREAD)), -(-values // MAX_VALUES_PER_THREAD))
    if blocks <= 1:
        return 0, 0
    buffer = accumulator_bytes * outputs * blocks
    if not along_input:
        buffer *= width * per_output
    return buffer, SEMAPHORE_BYTES * grid


def _output_vector(loop: Loop, offset: int) -> int:
    vector = 4
    for number in (offset, loop.kept[0].size, *(d.stride for d in (*loop.reduced, *loop.kept[1:]))):
        while number % vector:
            vector //= 2
    return vector


def _product(dimensions: Sequence[Dimension]) -> int:
    return math.prod(dimension.size for dimension in dimensions)


def _power(number: int, most: int) -> int:
    """The largest power of two not above `number`, and at most `most`."""
    return most if number >= most else 1 << max(number.bit_length() - 1, 0)
