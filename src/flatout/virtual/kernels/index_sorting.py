"""Operations that sort indices on the GPU: gradients of indexing and of embeddings.

Sources: aten/src/ATen/native/cuda/Indexing.cu (``index_put_with_sort_kernel``), Embedding.cu and
EmbeddingBackwardKernel.cu; CUB's device/dispatch/dispatch_radix_sort.cuh for the memory of a sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.kernels.dynamic import on_the_gpu, without_booleans
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

FEW_INDICES = 3072
ROWS_PER_THREAD = 10
DIGITS = 256
_INDEX_BYTES = 8
# One thread block sorts up to 256 x 9 pairs of 8 bytes each; larger ones take 384 x 10 at once.
ONE_TILE = 256 * 9
TILE = 384 * 10


def sort_pairs_bytes(count: int, largest: int, key_bytes: int = _INDEX_BYTES, value_bytes: int = _INDEX_BYTES) -> int:
    """Temporary memory of CUB's radix sort of `count` pairs whose keys are below `largest`, in bytes.

    One byte stands for none where a single thread block sorts all (recorded in snapshots of PyTorch 2.11).
    """
    if count <= ONE_TILE:
        return 1
    passes = max(1, -(-max(largest, 1).bit_length() // 8))
    parts = [passes * DIGITS * 4, -(-count // TILE) * DIGITS * 4, passes * 4]
    if passes > 1:
        parts += [count * key_bytes, count * value_bytes]
    return sum(-(-part // 256) * 256 for part in parts)


def _sort(index: int, count: int, largest: int, index_bytes: int) -> None:
    """The numbers 0, 1, 2 ... and CUB's memory, both given back after the sort."""
    with Temporaries(index) as inner:
        inner.take(count * index_bytes)
        inner.take(sort_pairs_bytes(count, largest, index_bytes, index_bytes))


@stands_in("_index_put_impl_")
def index_put(
    op: Operator,
    target: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    """With `accumulate` the places are sorted, so that equal ones are added one after the other."""
    index = native_index(target)
    indices = on_the_gpu(without_booleans(indices), index)
    machines.current().operations += 1
    indices = on_the_gpu(without_booleans(indices), native_index(target))
    result = generic(op, (target, indices, values, accumulate, unsafe), {})
    sorts = accumulate or torch.are_deterministic_algorithms_enabled()
    if sorts and target.numel() and values.numel():
        _sorted_put(index, target, indices, [i for i in indices if i is not None])
    return result


def _sorted_put(
    index: int, target: torch.Tensor, indices: Sequence[torch.Tensor | None], chosen: list[torch.Tensor]
) -> None:
    count = 1
    for n in torch.broadcast_shapes(*(i.shape for i in chosen)):
        count *= n
    rows = 1
    for size, used in zip(target.shape, indices):
        rows *= size if used is not None else 1
    nbytes = count * _INDEX_BYTES
    with Temporaries(index) as temporaries:
        for number in range(len(chosen)):
            # Wrapped into range, then times the dimension's stride; later ones are added to the first.
            with Temporaries(index) as wrapped:
                wrapped.take(nbytes)
                (temporaries if number == 0 else wrapped).take(nbytes)
        if not target.is_contiguous():
            temporaries.take(target.numel() * target.element_size())
        temporaries.take(nbytes)
        temporaries.take(nbytes)
        _sort(index, count, rows, _INDEX_BYTES)


@stands_in("embedding_dense_backward")
def embedding_backward(
    op: Operator,
    gradient: torch.Tensor,
    indices: torch.Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    """Up to 3,072 indices are added row by row; more are sorted and added in parts, in float32 for half precision."""
    args = (gradient, indices, num_weights, padding_idx, scale_grad_by_freq)
    if native_index(gradient) and (indices.numel() > FEW_INDICES or scale_grad_by_freq) and indices.numel():
        return _added_in_parts(op, args, gradient, indices, num_weights, scale_grad_by_freq)
    machines.current().operations += 1
    return generic(op, args, {})


MAXIMUM = 2


@stands_in("_embedding_bag_dense_backward")
def embedding_bag_backward(
    op: Operator,
    gradient: torch.Tensor,
    indices: torch.Tensor,
    offset2bag: torch.Tensor,
    bag_size: torch.Tensor,
    maximum_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    *rest: Any,
) -> torch.Tensor:
    """Sums and means are added in parts, as an embedding's gradient is. Source: native/cuda/EmbeddingBag.cu."""
    args = (
        gradient, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, *rest,
    )  # fmt: skip
    if native_index(gradient) and mode != MAXIMUM and indices.numel():
        return _added_in_parts(op, args, gradient, indices, num_weights, scale_grad_by_freq)
    machines.current().operations += 1
    result: torch.Tensor = generic(op, args, {})
    return result


@stands_in("_embedding_bag_backward")
def embedding_bag_gradient(op: Operator, *args: Any, **kwargs: Any) -> torch.Tensor:
    """C++ goes on to the dense or the sparse gradient; PyTorch's shape rule knows the dense one only."""
    result: torch.Tensor = op.overload._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)
    return result


def _added_in_parts(
    op: Operator,
    args: Sequence[Any],
    gradient: torch.Tensor,
    indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
) -> torch.Tensor:
    machines.current().operations += 1
    index, count, width, each = native_index(gradient), indices.numel(), gradient.shape[-1], indices.element_size()
    with Temporaries(index) as temporaries:
        temporaries.take(copy_bytes(gradient, torch.contiguous_format))
        temporaries.take(count * each)
        temporaries.take(count * each)
        _sort(index, count, num_weights, each)
        if scale_grad_by_freq:
            temporaries.take(count * each)
        result: torch.Tensor = generic(op, args, {})
        segments = min(count, num_weights)
        parts = count // ROWS_PER_THREAD + segments
        accumulator = 8 if gradient.dtype is torch.float64 else 4
        for nbytes in (count * each, 8, segments * each, segments * each, 8, parts * each, parts * width * accumulator):
            temporaries.take(nbytes)
    return result
