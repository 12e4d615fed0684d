"""Errors that the CUDA driver reports, with the advice that PyTorch adds.

Sources: c10/cuda/CUDAException.cpp, CUDAMiscFunctions.cpp and CUDADeviceAssertionHost.cpp. The wording was read from
``libc10_cuda.so`` of the CUDA wheels of PyTorch 2.6, 2.7, 2.8, 2.9, 2.10, 2.11, 2.12 and 2.14 (2.13 was not to be had
and is taken to be as 2.12): 2.9 added a hint to each error, 2.14 dropped the line about device-side assertions and
keeps the remark on asynchrony to errors of kernels.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from flatout.virtual.cuda_errors.wording import torch_version

_LATER = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be"
    " incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
_ASSERTIONS = "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


def invalid_device_ordinal() -> Exception:
    """A GPU was named that this machine does not have (``cudaErrorInvalidDevice``, 101)."""
    hint = "\nGPU device may be out of range, do you have enough GPUs?"
    return _error("invalid device ordinal", 101, hint, of_a_kernel=False)


def device_side_assert() -> Exception:
    """A kernel met an index out of range (``cudaErrorAssert``, 710)."""
    hint = (
        "\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
        " for more information."
    )
    return _error("device-side assert triggered", 710, hint, of_a_kernel=True)


def _error(description: str, code: int, hint: str, *, of_a_kernel: bool) -> Exception:
    version = torch_version()
    text = f"CUDA error: {description}"
    if version >= (2, 9):
        text += hint
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "1" and (of_a_kernel or version < (2, 14)):
        text += _LATER
    text += "\n"
    if version < (2, 14):
        text += _ASSERTIONS
    kind: Any = getattr(torch, "AcceleratorError", RuntimeError)  # from 2.8
    error: Exception = kind(text)
    if kind is not RuntimeError:
        error.error_code = code  # type: ignore[attr-defined]
    return error
