"""How PyTorch spells element types, tensor types and devices in its messages.

Sources: c10/core/ScalarType.h (``toString``), the demangled C++ names that ``caffe2::TypeMeta`` prints on Linux, and
``processErrorMsg`` in torch/csrc/Exceptions.cpp, which turns ``CUDAHalfType`` into ``torch.cuda.HalfTensor``.
"""

from __future__ import annotations

from functools import cache

import torch

from flatout.virtual.tensor import native_device, shown_device

_NAMES = {
    torch.float32: ("Float", "float"),
    torch.float64: ("Double", "double"),
    torch.float16: ("Half", "c10::Half"),
    torch.bfloat16: ("BFloat16", "c10::BFloat16"),
    torch.int64: ("Long", "long int"),
    torch.int32: ("Int", "int"),
    torch.int16: ("Short", "short int"),
    torch.int8: ("Char", "signed char"),
    torch.uint8: ("Byte", "unsigned char"),
    torch.bool: ("Bool", "bool"),
    torch.complex64: ("ComplexFloat", "c10::complex<float>"),
    torch.complex128: ("ComplexDouble", "c10::complex<double>"),
    torch.float8_e4m3fn: ("Float8_e4m3fn", "c10::Float8_e4m3fn"),
    torch.float8_e5m2: ("Float8_e5m2", "c10::Float8_e5m2"),
}
WITH_LEGACY_TYPE = frozenset(("Byte", "Char", "Double", "Float", "Int", "Long", "Short", "Half"))


@cache
def torch_version() -> tuple[int, int]:
    """Major and minor version of the installed PyTorch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def scalar_type(dtype: torch.dtype) -> str:
    """The dtype as ``ScalarType`` prints it: ``Half``."""
    known = _NAMES.get(dtype)
    return known[0] if known is not None else str(dtype).removeprefix("torch.").capitalize()


def type_meta(dtype: torch.dtype) -> str:
    """The dtype as C++ names the type: ``c10::Half``."""
    known = _NAMES.get(dtype)
    return known[1] if known is not None else str(dtype).removeprefix("torch.")


def device_of(tensor: torch.Tensor) -> torch.device:
    """The tensor's device as a script sees it."""
    return shown_device(native_device(tensor))


def tensor_type(tensor: torch.Tensor) -> str:
    """The tensor's type as ``Tensor.type()`` prints it; types that had no legacy class keep C++'s name."""
    name = scalar_type(tensor.dtype)
    on_gpu = device_of(tensor).type == "cuda"
    if name in WITH_LEGACY_TYPE:
        return f"torch.{'cuda.' if on_gpu else ''}{name}Tensor"
    return f"{'CUDA' if on_gpu else 'CPU'}{name}Type"
