"""Memory that CUDA's kernels take from the caching allocator and give back before they end, beside their outputs.

Each row says where it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import empty, generic
from flatout.virtual.kernels.layouts import copy_bytes
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

Sizes: TypeAlias = Callable[[Sequence[Any], dict[str, Any]], list[int]]
INDEX_BYTES = 8


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _contiguous(*places: int) -> Sizes:
    """Contiguous copies of these arguments."""

    def sizes(args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
        tensors = [args[place] for place in places if place < len(args)]
        return [copy_bytes(t, torch.contiguous_format) for t in tensors if isinstance(t, torch.Tensor)]

    return sizes


def _sort(args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Source: native/cuda/Sort.cpp and SortStable.cu: segments longer than 4096 go to a radix sort."""
    tensor = args[0]
    numbers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    dim = kwargs.get("dim", numbers[0] if numbers else -1)
    length = tensor.shape[dim] if tensor.dim() else 1
    if length <= 4096:
        return []
    return [_bytes(tensor), tensor.numel() * INDEX_BYTES, tensor.numel() * INDEX_BYTES]


def _softmax(args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Source: native/cuda/SoftMax.cu, host_softmax: the input is made contiguous."""
    return _contiguous(0)(args, kwargs)


def _softmax_backward(args: Sequence[Any], kwargs: dict[str, Any]) -> list[int]:
    """Source: native/cuda/SoftMax.cu, softmax_backward_cuda_out: the gradient times the output, both contiguous."""
    return [_bytes(args[0]), *_contiguous(0, 1)(args, kwargs)]


TABLE: dict[str, tuple[Sizes, str]] = {
    "sort.stable": (_sort, "native/cuda/Sort.cpp"),
    "_softmax": (_softmax, "native/cuda/SoftMax.cu"),
    "_log_softmax": (_softmax, "native/cuda/SoftMax.cu"),
    "_softmax_backward_data": (_softmax_backward, "native/cuda/SoftMax.cu, softmax_backward_cuda_out"),
    "_log_softmax_backward_data": (_contiguous(0, 1), "native/cuda/SoftMax.cu, host_softmax_backward"),
    "nll_loss_forward": (_contiguous(0, 1, 2), "native/cuda/Loss.cu, nll_loss_forward_out_cuda_template"),
    "nll_loss2d_forward": (_contiguous(0, 1, 2), "native/cuda/NLLLoss2d.cu"),
    "max_pool2d_with_indices_backward": (_contiguous(2), "native/cuda/DilatedMaxPool2d.cu"),
    "upsample_bilinear2d_backward": (_contiguous(0), "native/cuda/UpSampleBilinear2d.cu"),
    "_weight_norm_interface_backward": (_contiguous(0), "native/cuda/WeightNorm.cu"),
    "gather": (_contiguous(2), "native/cuda/ScatterGatherKernel.cu"),
}
"""Operator to the sizes in bytes that it takes, and the source file below aten/src/ATen."""


@stands_in(*TABLE)
def with_temporaries(op: Operator, *args: Any, **kwargs: Any) -> Any:
    machines.current().operations += 1
    sizes = TABLE[op.name[len("aten::") :]][0](args, kwargs)
    if not any(sizes):
        return generic(op, args, kwargs)
    tensor = next(a for a in args if isinstance(a, torch.Tensor))
    with Temporaries(native_index(tensor)) as temporaries:
        result = generic(op, args, kwargs)
        for size in sizes:
            temporaries.take(size)
        return result


@stands_in("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    op: Operator,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Source: native/cuda/EmbeddingBag.cu, _embedding_bag_cuda (mode 2 is the maximum)."""
    machines.current().operations += 1
    index = native_index(weight)
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    size = (bags, weight.shape[1])
    offset2bag = empty((indices.shape[0],), indices.dtype, index)
    bag_size = empty(tuple(offsets.shape), indices.dtype, index)
    output = empty(size, weight.dtype, index)
    maxima = empty(size if mode == 2 else (0,), indices.dtype, index)
    return output, offset2bag, bag_size, maxima
