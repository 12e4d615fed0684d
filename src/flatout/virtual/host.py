"""Weights that are larger than the host: CPU tensors whose memory is not really there.

A model is usually built on the CPU and then moved to the GPU. Its large weights are made up there, initialised with
random numbers that nobody will look at, and copied. On a dry run such a weight is a virtual tensor of host memory: it
costs nothing, and every operation on it is answered by its shape.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import psutil
import torch

from flatout.virtual.face.creation import known_to_jit
from flatout.virtual.tensor import HOST_INDEX, Allocation, contiguous_stride, new_tensor

WEIGHT_BYTES = 1 << 20
"""Weights from this size on are virtual while a module builds itself."""

_FRAMES = 24
_NAMES = ("empty", "zeros", "ones", "rand", "randn")
_HOST_TOTAL_BYTES = psutil.virtual_memory().total


def _size_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...] | None:
    size = kwargs.get("size")
    if size is None:
        size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    try:
        return tuple(int(n) for n in size)
    except (TypeError, ValueError):
        return None


def _a_module_builds_itself() -> bool:
    frame: Any = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), torch.nn.Module):
            return True
        frame = frame.f_back
    return False


def _goes_to_the_cpu(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    if device is None:
        try:
            device = torch.get_default_device()
        except AttributeError:  # PyTorch 2.6 after the script's own set_default_device(None), which means the CPU
            device = "cpu"
    return str(device) == "cpu"


def new_host_tensor(size: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A virtual CPU tensor."""
    allocation = Allocation(None, HOST_INDEX + 1, math.prod(size) * dtype.itemsize)
    return new_tensor(allocation, size, contiguous_stride(size), dtype)


def _virtual_when_large(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(plain)
    def factory(*args: Any, **kwargs: Any) -> torch.Tensor:
        size = _size_of(args, kwargs)
        if size is not None:
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            nbytes = math.prod(size) * dtype.itemsize
            if (
                nbytes >= WEIGHT_BYTES
                and kwargs.get("out") is None
                and kwargs.get("layout") in (None, torch.strided)
                and not kwargs.get("pin_memory")
                and (_a_module_builds_itself() or nbytes > _HOST_TOTAL_BYTES // 2)
                and _goes_to_the_cpu(kwargs)
            ):
                return new_host_tensor(size, dtype).requires_grad_(bool(kwargs.get("requires_grad")))
        return plain(*args, **kwargs)

    return factory


def install() -> None:
    """Replace the factories of ``torch`` that modules use for their weights."""
    for name in _NAMES:
        plain = getattr(torch, name)
        wrapper = _virtual_when_large(plain)
        setattr(torch, name, wrapper)
        known_to_jit(plain, wrapper)
