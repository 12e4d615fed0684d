"""What a virtual sparse tensor is, and how one is made.

C++ makes a sparse tensor for a *type* of device only: it first fills it with empty parts on plain ``meta`` and then
compares their device with that of the real ones. So while it makes one, plain ``meta`` means the virtual device
(`placed_on`), and its keys are then changed from meta's to CUDA's, as for any virtual tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flatout.virtual.dispatch import index_named
from flatout.virtual.kernels.dynamic import on_the_gpu
from flatout.virtual.operators import operator
from flatout.virtual.tensor import HOST_INDEX, native_index, placed_on

_aten: Any = torch.ops.aten


def is_coo(value: Any) -> bool:
    """Whether it is a tensor in coordinate format."""
    return isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo


def run_as_on_the_cpu(
    name: str, index: int, args: Sequence[Any], kwargs: dict[str, Any], key: Any = torch._C.DispatchKey.SparseCPU
) -> Any:
    """Run C++'s sparse function of that operator, ``zero_`` say; sparse tensors that it makes are virtual ones.

    Such a function is made of operations on indices and values, which come to the virtual GPU one by one. `index` is
    the native device. `key` is where C++ keeps the function.
    """
    with placed_on(index):
        result = operator(f"aten::{name}").overload._op_dk(key, *args, **kwargs)
    if index and is_coo(result) and torch._C._dispatch_keys(result).has(torch._C.DispatchKey.SparseMeta):
        return _keyed(result, index)
    return result


_make_subclass: Callable[..., torch.Tensor] = torch.Tensor._make_subclass
_GPU_KEYS = torch.device("cuda", 0)
_HOST_KEYS = torch.device("ve", 0)
"""For host memory that is not there: a backend that nobody has, that is asked before that of its dense tensors, and
for whose sparse tensors kernels can be registered."""


def _keyed(made: torch.Tensor, index: int) -> torch.Tensor:
    keys = _HOST_KEYS if index > HOST_INDEX else _GPU_KEYS
    return _make_subclass(torch.Tensor, made, False, device_for_backend_keys=keys)


def coo(indices: torch.Tensor, values: torch.Tensor, size: Sequence[int], *, coalesced: bool = False) -> torch.Tensor:
    """A sparse tensor over these parts: `indices` of shape (sparse dims, nnz), `values` of shape (nnz, *dense dims)."""
    made: torch.Tensor = _aten._sparse_coo_tensor_with_dims_and_tensors.default(
        indices.shape[0], values.dim() - 1, size, indices, values,
        dtype=values.dtype, layout=torch.sparse_coo, device=torch.device("meta", native_index(values)),
        is_coalesced=coalesced,
    )  # fmt: skip
    return made


def become(target: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Give a sparse tensor the parts of another one in place, as C++'s ``alias_into_sparse``."""
    target.data = other
    return target


def constructor(name: str) -> Callable[..., torch.Tensor]:
    """The kernel of an operator that makes a sparse tensor on the device that is named, or that of its parts."""

    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        index = index_named(kwargs.get("device"))
        if index:
            kwargs["device"] = torch.device("meta", index)
            args = tuple(_together(argument, index) for argument in args)
        made: torch.Tensor = run_as_on_the_cpu(name, index, args, kwargs)
        return made

    make.__name__ = name
    return make


def _together(part: Any, index: int) -> Any:
    """Indices on the real host beside values on one that is not there follow them; those of a GPU do not."""
    if not isinstance(part, torch.Tensor) or native_index(part):
        return part
    if index <= HOST_INDEX:
        raise RuntimeError("backend of indices (CPU) must match backend of values (CUDA)")
    return on_the_gpu((part,), index)[0]


CONSTRUCTORS = ("empty.memory_format", "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors")
