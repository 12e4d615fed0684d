"""What memory is for, as far as it shows later than when it was allocated: parameters, gradients, optimizer state."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from flatout.recording.schema import Category
from flatout.virtual.tensor import allocation_of, is_virtual


def mark(tensor: Any, category: Category) -> None:
    """Say what the memory of a virtual tensor is for. Anything else is left alone."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo:
        mark(tensor._indices(), category)
        mark(tensor._values(), category)
        return
    if (
        isinstance(tensor, torch.Tensor)
        and not isinstance(tensor, UninitializedTensorMixin)
        and tensor.layout is torch.strided
        and is_virtual(tensor)
    ):
        inner = getattr(tensor, "_local_tensor", None)
        if inner is not None:  # a DTensor has no memory of its own
            mark(inner, category)
            return
        record = allocation_of(tensor).record
        if record is not None:
            record.category = category


def mark_optimizer(optimizer: Any) -> int:
    """After a step: mark the optimizer's parameters, gradients and state. Returns its state's bytes on the GPU."""
    state_bytes = 0
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            mark(parameter, "parameters")
            mark(parameter.grad, "gradients")
    for state in list(getattr(optimizer, "state", {}).values()):
        for value in state.values() if isinstance(state, dict) else ():
            for item in value if isinstance(value, (list, tuple)) else (value,):
                mark(item, "optimizer")
                if isinstance(item, torch.Tensor) and item.is_cuda:
                    state_bytes += item.numel() * item.element_size()
    return state_bytes
