"""Operators that C++ composes of others, but only after a look at the native device."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.dispatch import taken_apart
from flatout.virtual.operators import Operator
from flatout.virtual.registry import composes, stands_in

_aten: Any = torch.ops.aten


@stands_in("embedding", "_pack_padded_sequence")
def composed(op: Operator, *args: Any, **kwargs: Any) -> Any:
    """Its check would name the native device; it is made in `flatout.virtual.cuda_errors.stand_ins` before."""
    return op.overload._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


@composes("one_hot")
def one_hot(op: Operator, classes: torch.Tensor, num_classes: int = -1) -> Any:
    """Only other devices look at the classes before; on CUDA the scatter fails.

    Source: aten/src/ATen/native/Onehot.cpp.
    """
    if classes.dtype is not torch.int64 or not classes.numel() or num_classes == 0:
        return taken_apart(op, classes, num_classes)
    if num_classes == -1:
        num_classes = int(classes.max().item()) + 1
    result = classes.new_zeros((*classes.shape, num_classes))
    return _aten.scatter_.value(result, -1, classes.unsqueeze(-1), 1)
