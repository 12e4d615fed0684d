"""Losses that write one number for each element before they reduce them: that tensor is live beside the operands.

Source: mse_loss, smooth_l1_loss and huber_loss in aten/src/ATen/native/Loss.cpp.
"""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.kernels.target import Temporaries
from flatout.virtual.operators import Operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import native_index

UNREDUCED = 0
MEAN = 1


@stands_in("mse_loss", "smooth_l1_loss", "huber_loss")
def elementwise_loss(
    op: Operator, input: torch.Tensor, target: torch.Tensor, reduction: int = MEAN, *rest: Any, **kwargs: Any
) -> Any:
    machines.current().operations += 1
    arguments = (input, target, reduction, *rest)
    if reduction == UNREDUCED:
        return generic(op, arguments, kwargs)
    with Temporaries(native_index(input) or native_index(target)) as temporaries:
        try:
            size = torch.broadcast_shapes(input.shape, target.shape)
        except RuntimeError:  # the operator itself says so in its own words
            return generic(op, arguments, kwargs)
        temporaries.take(size.numel() * torch.result_type(input, target).itemsize)
        return generic(op, arguments, kwargs)
