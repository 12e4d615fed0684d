"""Kernels for sparse tensors, put under PyTorch's dispatcher.

At the start only what makes one; the rest when the first virtual one is made. Operators for which CUDA has a sparse
kernel and the virtual GPU has no answer are refused by name. Those for which CUDA has none are left to PyTorch, whose
error is CUDA's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from flatout.errors import UnsupportedError
from flatout.virtual.native_functions import with_kernel_for
from flatout.virtual.sparse import coalescing, sums
from flatout.virtual.sparse.shared import SHARED
from flatout.virtual.sparse.tensors import CONSTRUCTORS, constructor, run_as_on_the_cpu
from flatout.virtual.tensor import native_index

Kernel: TypeAlias = Callable[..., Any]
KEYS = ("SparseCUDA", "SparseVE")
OWN: dict[str, Kernel] = {"_coalesce": coalescing.coalesce, "add.out": sums.add_out, "mul.out": sums.mul_out}
_libraries: list[Any] = []


def register_constructors() -> list[Any]:
    """Register what makes sparse tensors. Returns the libraries that keep all of this in place."""
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    for name in CONSTRUCTORS:
        kernel = _first_of_its_kind(constructor(name))
        for key in ("SparseMeta", *KEYS):
            library.m.impl(name, key, kernel, False)
    return _libraries


def _first_of_its_kind(make: Kernel) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        _register_the_rest()
        return make(*args, **kwargs)

    return kernel


_done: list[bool] = []


def _register_the_rest() -> None:
    if _done:
        return
    _done.append(True)
    library = _libraries[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CUDA build's own kernel is replaced: that is the purpose
        for name in (with_kernel_for(KEYS[0]) | set(OWN)) - set(CONSTRUCTORS):
            kernel = OWN.get(name) or (_shared(name) if name in SHARED else _refused(name))
            for key in KEYS:
                library.m.impl(name, key, kernel, False)


def _shared(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return run_as_on_the_cpu(name, _device_of((*args, *kwargs.values())), args, kwargs)

    kernel.__name__ = name
    return kernel


def _device_of(values: Any) -> int:
    """The native device of the first virtual tensor among arguments."""
    for value in values:
        index = _device_of(value) if isinstance(value, (list, tuple)) else 0
        if isinstance(value, torch.Tensor):
            index = native_index(value)
        if index:
            return index
    return 0


def _refused(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"aten::{name} of a sparse tensor is not supported on the virtual GPU: use a dense tensor (Tensor.to_dense)"
        )

    kernel.__name__ = name
    return kernel
