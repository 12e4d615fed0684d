"""The number format that the matrix products and convolutions run in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from flatout.errors import UsageError

MODES = ("auto", "fp32", "tf32", "bf16", "fp16")
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Precision:
    """`mode`: fp32, tf32, bf16 or fp16. `why`: in words. `scaler`: of losses; it does nothing but in fp16."""

    mode: str
    why: str
    device: torch.device
    scaler: torch.amp.GradScaler

    @property
    def dtype(self) -> torch.dtype | None:
        """The low precision of autocast; None where it is off."""
        return LOW.get(self.mode)

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products and convolutions run in `dtype` inside this."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def no_autocast(self) -> AbstractContextManager[object]:
        """For the backward pass: it runs in the dtypes of the forward pass and takes no casts of its own.

        The low-precision copies of the weights are let go of, as they are when a plain loop leaves autocast.
        """
        if self.dtype is None:
            return nullcontext()
        torch.clear_autocast_cache()
        return torch.autocast(self.device.type, enabled=False)


def choose_precision(asked: str, device: torch.device) -> Precision:
    """The precision asked for, or by what the device has.

    auto is bf16 on GPUs whose tensor cores take it (compute capability 8.0), fp16 with loss scaling where tensor cores
    take only that (7.0), and fp32 elsewhere: a CPU or an older GPU is not faster for it.
    """
    if asked not in MODES:
        raise UsageError(f"Loop(precision={asked!r}): not a precision; give one of {', '.join(MODES)}")
    mode, why = (asked, "asked for") if asked != "auto" else _best(device)
    if mode == "tf32":
        torch.set_float32_matmul_precision("high")  # the only one of PyTorch's TF32 switches that mixes with the others
    scaler = torch.amp.GradScaler(device.type, enabled=mode == "fp16")
    return Precision(mode, why, device, scaler)


def _best(device: torch.device) -> tuple[str, str]:
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability >= (8, 0):
            return "bf16", "its tensor cores take bfloat16"
        if capability >= (7, 0):
            return "fp16", "its tensor cores take float16, not bfloat16"
        return "fp32", "it has no tensor cores"
    return "fp32", f"mixed precision does not pay on {device.type}"
