"""Attributes and methods of tensors whose C++ answer would betray ``meta``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual.cuda_errors import shown_for
from flatout.virtual.cuda_errors.devices import tensors_in
from flatout.virtual.face import pinning
from flatout.virtual.face.devices import device_argument, plain_int
from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import HOST_INDEX, allocation_of, native_device, native_index, shown_device

_Tensor: Any = torch.Tensor
UninitializedTensorMixin: Any = torch.nn.parameter.__dict__["UninitializedTensorMixin"]
_base: Any = torch._C.TensorBase
_plain_to: Callable[..., torch.Tensor] = _base.to
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
_plain_data_ptr = _base.data_ptr
_plain_is_shared: Any = torch.Tensor.is_shared


def install(patches: Patches) -> None:
    """Replace the attributes on ``torch.Tensor`` (real tensors go on as before)."""
    _replace(
        patches,
        {
            "device": _DeviceAttribute(),
            "grad": _Gradient(_base.grad),
            "_grad": _Gradient(_base._grad),
            "is_cuda": property(lambda self: 0 < native_index(self) <= HOST_INDEX),
            "is_meta": property(lambda self: native_device(self).type == "meta" and not native_index(self)),
            "is_cpu": property(lambda self: native_device(self).type == "cpu" or native_index(self) > HOST_INDEX),
            "get_device": _get_device,
            "cuda": _cuda,
            "to": _to,
            "data_ptr": _data_ptr,
            "is_shared": _is_shared,
            "is_pinned": pinning.is_pinned,
            "pin_memory": pinning.pin_memory,
        },
    )
    patches.set(torch, "get_device", _get_device)


def _replace(patches: Patches, methods: dict[str, Any]) -> None:
    allowed = UninitializedTensorMixin._allowed_methods
    for name, method in methods.items():
        if callable(method):
            method.__name__ = name  # what a ``__torch_function__`` mode is shown
            if getattr(_Tensor, name) in allowed:  # what may be asked of a lazy module's parameter
                patches.set(UninitializedTensorMixin, "_allowed_methods", [*allowed, method])
                allowed = UninitializedTensorMixin._allowed_methods
        patches.set(_Tensor, name, method)


class _NativeGetter:
    """Stands in for the method-wrapper ``Tensor.device.__get__``, by whose class name PyTorch's own modes know it."""

    def __call__(self, tensor: Any, owner: Any = None) -> torch.device:
        return native_device(tensor)


_NativeGetter.__name__ = "method-wrapper"


class _DeviceAttribute:
    """``Tensor.device``.

    Under a ``__torch_function__`` mode (``torch.set_default_device`` is one) C++'s own getter comes back to this
    class, by ``Tensor.device.__get__``, for the native answer. Python's attribute access takes the method of the class
    instead.
    """

    def __init__(self) -> None:
        self.__dict__["__get__"] = _NativeGetter()

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self if tensor is None else shown_device(native_device(tensor))

    def __set__(self, tensor: Any, value: Any) -> None:
        raise AttributeError("attribute 'device' of 'torch._C.TensorBase' objects is not writable")


class _Gradient:
    """``Tensor.grad``. C++ names the type of the native device where it refuses a gradient.

    Who asks for ``Tensor.grad.__get__`` itself, as PyTorch's own modes do, is given C++'s.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.__dict__["__get__"] = plain.__get__

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self if tensor is None else self._plain.__get__(tensor)

    def __set__(self, tensor: torch.Tensor, gradient: Any) -> None:
        try:
            self._plain.__set__(tensor, gradient)
        except RuntimeError as error:
            raise type(error)(shown_for(str(error), tensors_in((tensor, gradient)))) from None

    def __delete__(self, tensor: torch.Tensor) -> None:
        self._plain.__delete__(tensor)


def _get_device(self: torch.Tensor) -> int:
    index = native_index(self)
    return index - 1 if 0 < index <= HOST_INDEX else int(_base.get_device(self))


def _data_ptr(self: torch.Tensor) -> int:
    """Inside the block that the allocator gave; views of one storage differ by their offset."""
    if not native_index(self):
        return int(_plain_data_ptr(self))
    block = allocation_of(self).block
    if block is None or self.numel() == 0:
        return 0
    return int(block.address) + int(self.storage_offset()) * self.element_size()


def _is_shared(self: torch.Tensor) -> bool:
    return 0 < native_index(self) <= HOST_INDEX or bool(_plain_is_shared(self))


def _native(device: Any, tensor: torch.Tensor) -> Any:
    """The device to ask C++ for: a virtual tensor that is already there must not move."""
    device = device_argument(device)
    index = native_index(tensor)
    if index and shown_device(native_device(tensor)) == device:
        return native_device(tensor)
    if not index and device.type == "cuda" and native_device(tensor).type == "meta" and type(tensor) in _PLAIN_TYPES:
        # C++ sees a copy from meta to meta, which is legal. Source of the text: aten/src/ATen/native/Copy.cpp.
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return device


def _cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> torch.Tensor:
    device = torch.device("cuda") if device is None else device_argument(device)
    if device.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device, but got {device.type}")
    return _to(self, device, non_blocking=non_blocking, memory_format=memory_format)


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if args:
        first = args[0]
        if isinstance(first, torch.Tensor):
            return _to(self, first.device, first.dtype, *args[1:], **kwargs)
        if isinstance(first, (str, torch.device)) or plain_int(first):
            args = (_native(first, self), *args[1:])
    elif "other" in kwargs:
        other = kwargs.pop("other")
        return _to(self, other.device, other.dtype, **kwargs)
    device = kwargs.get("device")
    if device is not None:
        kwargs["device"] = _native(device, self)
    return _plain_to(self, *args, **kwargs)
