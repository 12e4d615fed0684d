"""Which memory format a tensor's strides look like, as C++ ``suggest_memory_format`` says, and what copies take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

_ORDERS = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@lru_cache(maxsize=4096)
def format_of(size: Sequence[int], stride: Sequence[int]) -> torch.memory_format:
    """``channels_last`` (or ``_3d``) where the strides look like it, else ``contiguous_format``.

    Source: is_channels_last_strides_2d in c10/core/MemoryFormat.h.
    """
    order = _ORDERS.get(len(size))
    if order is None or stride[1] == 0:
        return torch.contiguous_format
    least = 0
    for d in order:
        if size[d] == 0 or stride[d] < least:
            return torch.contiguous_format
        if d == 0 and least == stride[1]:
            return torch.contiguous_format
        least = stride[d] * max(size[d], 1)
    return _FORMATS[len(size)]


def suggest(tensor: torch.Tensor) -> torch.memory_format:
    """The memory format of a tensor."""
    return format_of(tuple(tensor.shape), tensor.stride())


def cudnn_format(first: torch.Tensor, second: torch.Tensor) -> torch.memory_format:
    """The format in which cuDNN runs a convolution: channels last where either tensor suggests it, never for float64.

    Source: cudnn_conv_suggest_memory_format in ATen/native/ConvUtils.h.
    """
    if first.dtype is torch.float64 or second.dtype is torch.float64:
        return torch.contiguous_format
    wanted = _FORMATS.get(second.dim())
    if wanted is not None and wanted in (suggest(first), suggest(second)):
        return wanted
    return torch.contiguous_format


def padded(n: int, multiple: int) -> int:
    """`n` rounded up to a multiple."""
    return -(-n // multiple) * multiple


def copy_bytes(tensor: torch.Tensor, memory_format: torch.memory_format) -> int:
    """Bytes of the copy that ``tensor.contiguous(memory_format=...)`` makes: 0 where it already is."""
    return 0 if tensor.is_contiguous(memory_format=memory_format) else tensor.numel() * tensor.element_size()
