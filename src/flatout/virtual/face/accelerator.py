"""The functions of ``torch._C`` beneath ``torch.accelerator``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.face import driver, memory_functions
from flatout.virtual.face.patches import Patches

_CUDA = driver.FUNCTIONS
_MEMORY = memory_functions.FUNCTIONS


def _set_stream(stream: Any) -> None:
    torch.cuda.set_stream(
        torch.cuda.Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=1)
    )


def _memory_info(number: int) -> tuple[int, int]:
    return torch.cuda.mem_get_info(number)


def _capability(number: int) -> dict[str, Any]:
    dtypes = {
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int8,
        torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool,
    }  # fmt: skip
    return {"supported_dtypes": dtypes}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_accelerator_getAccelerator": lambda: torch.device("cuda"),
    "_get_accelerator": lambda *check: torch.device("cuda"),
    "_accelerator_deviceCount": _CUDA["_cuda_getDeviceCount"],
    "_accelerator_getDeviceIndex": _CUDA["_cuda_getDevice"],
    "_accelerator_setDeviceIndex": _CUDA["_cuda_setDevice"],
    "_accelerator_exchangeDevice": _CUDA["_cuda_exchangeDevice"],
    "_accelerator_maybeExchangeDevice": _CUDA["_cuda_maybeExchangeDevice"],
    "_accelerator_getStream": lambda number: torch.cuda.current_stream(number),  # noqa: PLW0108 - patched later
    "_accelerator_setStream": _set_stream,
    "_accelerator_synchronizeDevice": lambda number: _CUDA["_cuda_synchronize"](),
    "_accelerator_isAllocatorInitialized": lambda: machines.current().initialized,
    "_accelerator_emptyCache": _MEMORY["_cuda_emptyCache"],
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": _MEMORY["_cuda_memoryStats"],
    "_accelerator_resetPeakStats": _MEMORY["_cuda_resetPeakMemoryStats"],
    "_accelerator_resetAccumulatedStats": _MEMORY["_cuda_resetAccumulatedMemoryStats"],
    "_accelerator_getMemoryInfo": _memory_info,
    "_accelerator_getDeviceCapability": _capability,
    "_accelerator_hooks_device_count": _CUDA["_cuda_getDeviceCount"],
    "_accelerator_hooks_get_current_device": _CUDA["_cuda_getDevice"],
    "_accelerator_hooks_set_current_device": _CUDA["_cuda_setDevice"],
    "_accelerator_hooks_exchange_device": _CUDA["_cuda_exchangeDevice"],
    "_accelerator_hooks_maybe_exchange_device": _CUDA["_cuda_maybeExchangeDevice"],
}


def install(patches: Patches) -> None:
    """Put these functions under ``torch.accelerator`` (PyTorch 2.6 and newer)."""
    patches.set_all(torch._C, FUNCTIONS)
    accelerator = getattr(torch, "accelerator", None)
    for name in list(getattr(accelerator, "__dict__", ())):
        if name in FUNCTIONS:  # pragma: no cover - taken by name in some versions
            patches.set(accelerator, name, FUNCTIONS[name])
