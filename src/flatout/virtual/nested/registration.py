"""Kernels for nested tensors, put under PyTorch's dispatcher when the first virtual one is made.

What CUDA has a nested kernel for and the virtual GPU no answer is refused by name; the rest is left to PyTorch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from flatout.errors import UnsupportedError
from flatout.virtual.native_functions import with_kernel_for
from flatout.virtual.nested import encoder, tensors
from flatout.virtual.operators import operator

Kernel: TypeAlias = Callable[..., Any]
KEY = "NestedTensorCUDA"
OWN: dict[str, Kernel] = {
    "_transformer_encoder_layer_fwd": encoder.encoder_layer,
    "to_padded_tensor": tensors.to_padded,
}
SHARED = (
    "_nested_tensor_size", "_nested_tensor_storage_offsets", "_nested_tensor_strides", "is_same_size", "select.int",
    "transpose.int", "unbind.int", "values", "view",
)  # fmt: skip
"""Operators whose function in C++ is the same for the CPU and for CUDA, and looks at no content itself."""

_libraries: list[Any] = []


def register() -> None:
    """Register the kernels, once; they stay until the process ends."""
    if _libraries:
        return
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a CUDA build's own kernel is replaced: that is the purpose
        for name in with_kernel_for(KEY) | set(OWN):
            kernel = OWN.get(name) or (_shared(name) if name in SHARED else _refused(name))
            library.m.impl(name, KEY, kernel, False)


def _shared(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return operator(f"aten::{name}").overload._op_dk(tensors.NESTED_CPU, *args, **kwargs)

    kernel.__name__ = name
    return kernel


def _refused(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"aten::{name} of a nested tensor is not supported on the virtual GPU: pad it (Tensor.to_padded_tensor), or"
            " give torch.nn.TransformerEncoder enable_nested_tensor=False"
        )

    kernel.__name__ = name
    return kernel
