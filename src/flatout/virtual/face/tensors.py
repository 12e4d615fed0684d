"""Attributes and methods of tensors and storages whose C++ answer would betray ``meta``."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.tensor import (
    HOST_INDEX,
    native_device,
    native_index,
    shown_device,
)

_Tensor: Any = torch.Tensor
_base: Any = torch._C.TensorBase


def install() -> None:
    """Replace the attributes on ``torch.Tensor`` (real tensors go on as before)."""
    _Tensor.device = property(_device)
    _Tensor.is_cuda = property(lambda self: 0 < native_index(self) <= HOST_INDEX)
    _Tensor.is_meta = property(lambda self: native_device(self).type == "meta" and not native_index(self))
    _Tensor.is_cpu = property(lambda self: native_device(self).type == "cpu" or native_index(self) > HOST_INDEX)
    _Tensor.get_device = _get_device
    _Tensor.cuda = _cuda
    _Tensor.to = _to


def _device(self: torch.Tensor) -> torch.device:
    return shown_device(native_device(self))


def _get_device(self: torch.Tensor) -> int:
    index = native_index(self)
    return index - 1 if 0 < index <= HOST_INDEX else int(_base.get_device(self))


def device_argument(device: Any) -> torch.device:
    """The GPU that a script named: a string, number or device, with or without an index."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    elif isinstance(device, str):
        device = torch.device(device)
    if device.type == "cuda":
        device = machines.current().gpu(device.index).device
    return device  # type: ignore[no-any-return]


def _native(device: Any, tensor: torch.Tensor) -> Any:
    """The device to ask C++ for: a virtual tensor that is already there must not move."""
    device = device_argument(device)
    index = native_index(tensor)
    if index and shown_device(native_device(tensor)) == device:
        return native_device(tensor)
    return device


def _cuda(
    self: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
) -> torch.Tensor:
    return _to(self, "cuda" if device is None else device, non_blocking=non_blocking, memory_format=memory_format)


_plain_to = _base.to


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if args:
        first = args[0]
        if isinstance(first, torch.Tensor):
            return _to(self, device=first.device, dtype=first.dtype, **kwargs)
        if isinstance(first, (str, int, torch.device)) and not isinstance(first, bool):
            args = (_native(first, self), *args[1:])
    device = kwargs.get("device")
    if device is not None:
        kwargs["device"] = _native(device, self)
    return _plain_to(self, *args, **kwargs)  # type: ignore[no-any-return]
