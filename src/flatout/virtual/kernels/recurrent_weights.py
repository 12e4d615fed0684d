"""The weights of a recurrent net as cuDNN wants them: one buffer, the matrices of all layers before all biases.

Source: aten/src/ATen/native/cudnn/RNN.cpp. What was not flattened is copied into a new buffer at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import alias, empty
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import contiguous_stride, native_index


def flattened(params: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The buffer that all weights are views of, or None."""
    first = params[0].untyped_storage()
    count = sum(param.numel() for param in params)
    if first.nbytes() < count * params[0].element_size() or len(params) < 2:
        return None
    if any(param.untyped_storage()._cdata != first._cdata for param in params[1:]):
        return None
    return alias(params[0].detach(), (count,), (1,), 0)


def buffer_offsets(params: Sequence[torch.Tensor]) -> list[int]:
    """Where each weight starts in the buffer, in elements: the matrices in order, then the biases."""
    offsets = [0] * len(params)
    place = 0
    for wanted in (True, False):
        for number, param in enumerate(params):
            if (param.dim() > 1) is wanted:
                offsets[number] = place
                place += param.numel()
    return offsets


def views_of(buffer: torch.Tensor, params: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The buffer's parts in the shapes of the weights."""
    return [
        alias(buffer, param.shape, contiguous_stride(param.shape), offset)
        for param, offset in zip(params, buffer_offsets(params))
    ]


@stands_in("_cudnn_rnn_flatten_weight")
def flatten_weight(op: Operator, weight_arr: Sequence[torch.Tensor], *rest: Any) -> torch.Tensor:
    machines.current().operations += 1
    first = weight_arr[0]
    buffer = empty((sum(param.numel() for param in weight_arr),), first.dtype, native_index(first))
    storage = buffer.untyped_storage()
    for param, offset in zip(weight_arr, buffer_offsets(weight_arr)):
        param.set_(storage, offset, param.shape, contiguous_stride(param.shape))
    return buffer
