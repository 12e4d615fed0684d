"""The old names of tensor types: ``torch.cuda.FloatTensor``, ``tensor.type("torch.cuda.HalfTensor")``."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import HOST_INDEX, native_index

_DTYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()} | {
    torch.complex64: "ComplexFloatTensor",
    torch.complex128: "ComplexDoubleTensor",
}
_base: Any = torch.Tensor
_plain_type = _base.type
_plain_set_default: Any = torch._C._set_default_tensor_type


class TensorType(type):
    """Metaclass of ``torch.cuda.FloatTensor`` and its like."""

    dtype: torch.dtype
    is_cuda = True
    is_sparse = False
    layout = torch.strided

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        torch.cuda._lazy_init()
        device = machines.current().gpu().device
        if not args:
            return torch.empty(0, dtype=cls.dtype, device=device)
        if all(isinstance(n, int) for n in args) or isinstance(args[0], torch.Size):
            return torch.empty(*args, dtype=cls.dtype, device=device)
        if isinstance(args[0], torch.Tensor):
            return args[0].detach()
        return torch.tensor(args[0], dtype=cls.dtype, device=device)


def _make(name: str, dtype: torch.dtype) -> Any:
    return TensorType(name, (), {"dtype": dtype, "__module__": "torch.cuda"})


_types = {name: _make(name, dtype) for name, dtype in _DTYPES.items()}


def _wanted(value: Any) -> torch.dtype | None:
    """The dtype of a CUDA tensor type that was named, or None where it is not one."""
    if isinstance(value, TensorType):
        return value.dtype
    if isinstance(value, str) and value.startswith("torch.cuda."):
        name = value[len("torch.cuda.") :]
        if name not in _DTYPES:
            raise ValueError(f"invalid type: '{value}'")
        return _DTYPES[name]
    return None


def tensor_type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """``Tensor.type``: the name of the type, or a tensor of another one."""
    index = native_index(self)
    if dtype is None:
        if not 0 < index <= HOST_INDEX:
            name = _plain_type(self)
            return name.replace("torch.meta.", "torch.") if index else name
        place = "cuda.sparse" if self.layout is torch.sparse_coo else "cuda"
        return f"torch.{place}.{_NAMES.get(self.dtype, str(self.dtype)[6:].capitalize() + 'Tensor')}"
    wanted = _wanted(dtype)
    if wanted is not None:
        device = self.device if 0 < index <= HOST_INDEX else machines.current().gpu().device
        return self.to(device, wanted, non_blocking=non_blocking)
    if index and isinstance(dtype, torch.dtype):
        return self.to(dtype, non_blocking=non_blocking)
    if index:
        name = dtype if isinstance(dtype, str) else f"torch.{dtype.__name__}"
        return self.to("cpu", _DTYPES[name.rpartition(".")[2]], non_blocking=non_blocking)
    return _plain_type(self, dtype, non_blocking)


def _set_default(kind: Any) -> None:
    """``torch.set_default_tensor_type``."""
    wanted = _wanted(kind)
    if wanted is None:
        _forget_default_device()
        _plain_set_default(kind)
        return
    torch.set_default_dtype(wanted)
    torch.set_default_device("cuda")


def _forget_default_device() -> None:
    """Have no default device, as at the start: PyTorch 2.6 does not bear to be asked for it after a None."""
    torch.set_default_device(None)
    context = torch._GLOBAL_DEVICE_CONTEXT
    if getattr(context, "device_context", torch) is None:
        del context.device_context


def install(patches: Patches) -> None:
    """Give ``torch.cuda`` these types."""
    for name, made in _types.items():
        patches.set(torch.cuda, name, made)
    patches.set(torch.Tensor, "type", tensor_type)
    patches.set(torch._C, "_set_default_tensor_type", _set_default)
