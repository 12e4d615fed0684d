"""Page-locked host memory: ordinary memory here, remembered as pinned on its storage."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.tensor import HOST_INDEX, native_index


def mark(tensor: torch.Tensor) -> torch.Tensor:
    """Say that this CPU tensor's memory is page-locked."""
    torch.cuda._lazy_init()
    storage: Any = tensor.untyped_storage()
    storage._flatout_pinned = True
    return tensor


def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    """``Tensor.is_pinned``."""
    if 0 < native_index(self) <= HOST_INDEX or self.layout is not torch.strided:
        return False
    return getattr(self.untyped_storage(), "_flatout_pinned", False)


def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    """``Tensor.pin_memory``: a pinned copy, or the tensor itself where it is pinned already."""
    if is_pinned(self):
        return self
    if not self.is_cpu or self.layout is not torch.strided:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    # A copy without gaps keeps the strides, as the pinned copy on a real machine does.
    return mark(self.clone(memory_format=torch.preserve_format))


def storage_is_pinned(self: Any, device: Any = None) -> bool:
    """``UntypedStorage.is_pinned``."""
    return getattr(self, "_flatout_pinned", False)


def storage_pin_memory(self: Any, device: Any = None) -> Any:
    """``UntypedStorage.pin_memory``."""
    if storage_is_pinned(self):
        return self
    if self.device.type != "cpu":
        raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
    copy = self.clone()
    torch.cuda._lazy_init()
    copy._flatout_pinned = True
    return copy
