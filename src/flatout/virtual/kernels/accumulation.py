"""Sums of gradients: autograd adds the second one to the first in place where nobody else holds the first.

Autograd tells that by reference counts. In newer versions of PyTorch (2.13, not 2.6) a virtual tensor's storage counts
one more than a real one's: its Python object, which carries the `Allocation`. So C++ adds out of place where CUDA would
not. `calibrate` finds out what the counts are here for a gradient that nobody else holds; where C++ adds in place by
itself it finds none, and all is well.

Source: torch/csrc/autograd/input_buffer.cpp (``can_accumulate_inplace``).
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

import torch
import torch.autograd.graph

from flatout.virtual import machine as machines
from flatout.virtual.dispatch import generic
from flatout.virtual.operators import Operator, operator
from flatout.virtual.stand_ins import stands_in
from flatout.virtual.tensor import HOST_INDEX, Allocation, is_virtual, new_tensor

_in_backward: Any = getattr(torch._C, "_current_graph_task_id", None)
_tensor_use_count: Any = getattr(torch.Tensor, "_use_count", None)
_storage_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)
_engine: CodeType = torch.autograd.graph._engine_run_backward.__code__
# Their formulas add tensors of their own; those sums are not autograd's.
_ADDING_NODES = ("Linalg", "Var", "Std", "Prod", "Cumprod", "Norm", "Cholesky", "Renorm", "Lerp")


class _Counts:
    """Reference counts of a gradient that only autograd holds: of the tensor, its storage and its Python object."""

    def __init__(self) -> None:
        self.alone: tuple[int, int, int] | None = None
        self.probing = False


_counts = _Counts()


@stands_in("add.Tensor")
def add(op: Operator, *args: Any, **kwargs: Any) -> Any:
    machines.current().operations += 1
    if (
        _in_backward is not None
        and _in_backward() != -1
        and (_counts.alone is not None or _counts.probing)
        and _may_be_added_to(args[0], args[1])
        and _called_by_autograd()
    ):
        counts = _counts_of(args[0], sys.getrefcount(args[0]))
        if _counts.probing:
            _counts.alone = counts
        elif counts == _counts.alone and not _node_adds():
            return generic(operator("aten::add_.Tensor"), args, kwargs)
    return generic(op, args, kwargs)


def _may_be_added_to(first: Any, second: Any) -> bool:
    return (
        isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
        and is_virtual(first)
        and first.shape == second.shape
        and first.dtype == second.dtype
        and not torch.is_grad_enabled()
        and first.layout is torch.strided
        and (first.is_contiguous() or _is_dense(first))
    )


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie without gaps and overlaps, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _called_by_autograd() -> bool:
    """Whether C++ called the kernel on behalf of ``backward``, with no Python of a script's or a hook's between."""
    frame = sys._getframe(3)  # past this function, the stand-in and its kernel
    return frame is not None and frame.f_code is _engine


def _counts_of(tensor: torch.Tensor, python_count: int) -> tuple[int, int, int]:
    return (
        _tensor_use_count(tensor),
        _storage_use_count(tensor.untyped_storage()._cdata),
        python_count,
    )


def _node_adds() -> bool:
    node: Any = torch._C._current_autograd_node()
    return node is not None and str(node.name()).startswith(_ADDING_NODES)


def calibrate() -> None:
    """Find the counts of a gradient that nobody else holds, on host memory that is not there."""
    if _storage_use_count is None:
        return
    index = HOST_INDEX + 1
    source = new_tensor(Allocation(None, index, 64 << 20), (16 << 20,), (1,), torch.float32).requires_grad_()
    shared = source * 2
    total = (shared * 3).sum() + (shared * 4).sum()
    _counts.probing = True
    try:
        total.backward()
    finally:
        _counts.probing = False
