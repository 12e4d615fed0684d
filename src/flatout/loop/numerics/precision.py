"""The number format that the matrix products and convolutions run in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import torch

from flatout.errors import UsageError
from flatout.loop.numerics.autocasting import Block, Scope

MODES = ("auto", "fp32", "tf32", "bf16", "fp16")
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}

BF16_CAPABILITY = (8, 0)  # Ampere: the first tensor cores that take bfloat16 (CUDA C programming guide, 7.24)
FP16_CAPABILITY = (7, 0)  # Volta: the first tensor cores, float16 only


@dataclass(frozen=True)
class Precision:
    """`mode`: fp32, tf32, bf16 or fp16. `why`: in words. `scaler`: of losses; it does nothing but in fp16."""

    mode: str
    why: str
    device: torch.device
    scaler: torch.amp.GradScaler
    scope: Scope = field(default_factory=Scope)

    @cached_property
    def dtype(self) -> torch.dtype | None:
        """The low precision of autocast; None where it is off."""
        return LOW.get(self.mode)

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products and convolutions run in `dtype` inside this."""
        return self._surroundings if self.dtype is None else Block(self.scope, self.device.type, self.dtype)

    @cached_property
    def _surroundings(self) -> Block:
        """What changes nothing and remembers nothing: one for all steps."""
        return Block(self.scope, self.device.type, None)

    def no_autocast(self) -> AbstractContextManager[object]:
        """For the backward pass: it runs in the dtypes of the forward pass and takes no casts of its own.

        The low-precision copies of the weights are let go of, as they are when a plain loop leaves autocast.
        """
        if self.dtype is None:
            return nullcontext()
        torch.clear_autocast_cache()
        return torch.autocast(self.device.type, enabled=False)


def choose_precision(asked: str, device: torch.device) -> Precision:
    """The precision asked for, or the best of what the device has."""
    if asked not in MODES:
        raise UsageError(f"Loop(precision={asked!r}): not a precision; give one of {', '.join(MODES)}")
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
    mode, why = best(device.type, capability) if asked == "auto" else (asked, remark(asked, device.type, capability))
    if mode == "tf32":
        torch.set_float32_matmul_precision("high")  # the only one of PyTorch's TF32 switches that mixes with the others
    scaler = torch.amp.GradScaler(device.type, enabled=mode == "fp16")
    return Precision(mode, why, device, scaler)


def best(device_type: str, capability: tuple[int, int] | None) -> tuple[str, str]:
    """The mode that "auto" stands for, and why. `capability`: CUDA's compute capability, None on other devices.

    bf16 on GPUs whose tensor cores take it, fp16 with loss scaling where they take only that, and fp32 elsewhere: a CPU
    or an older GPU is not faster for it.
    """
    if capability is None:
        return "fp32", f"mixed precision does not pay on {device_type}"
    if torch.version.hip is not None:  # AMD's numbers are not NVIDIA's; all GPUs that ROCm supports take bfloat16
        return "bf16", "its matrix cores take bfloat16"
    if capability >= BF16_CAPABILITY:
        return "bf16", "its tensor cores take bfloat16"
    if capability >= FP16_CAPABILITY:
        return "fp16", "its tensor cores take float16, not bfloat16"
    return "fp32", "it has no tensor cores"


def remark(asked: str, device_type: str, capability: tuple[int, int] | None) -> str:
    """What is to be said of a mode that was asked for: that the device is slow at it, where it is."""
    nvidia = capability is not None and torch.version.hip is None
    if nvidia and capability is not None and asked in ("bf16", "tf32") and capability < BF16_CAPABILITY:
        advice = "fp16 is the fast one here" if capability >= FP16_CAPABILITY else "it has no tensor cores"
        return f"asked for, but this GPU has no tensor cores for {asked} and is no faster in it; {advice}"
    if nvidia and capability is not None and asked == "fp16" and capability < FP16_CAPABILITY:
        return "asked for, but this GPU has no tensor cores: it saves memory, not time"
    if asked == "tf32" and device_type != "cuda":
        return f"asked for, but TF32 is a format of NVIDIA's GPUs: {device_type} runs in float32"
    return "asked for"


def mixed_switches() -> str | None:
    """What to say when PyTorch's old and new TF32 switches contradict each other; None when they do not.

    The new one alone (`torch.backends.cuda.matmul.fp32_precision`, since 2.9) makes the old getter raise, also inside
    `torch.compile`.
    """
    try:
        torch.get_float32_matmul_precision()
    except RuntimeError:
        return (
            "TF32 was switched by torch.backends...fp32_precision, after which torch.get_float32_matmul_precision() "
            "and torch.compile(mode='max-autotune') fail; switch it by torch.set_float32_matmul_precision('high') or "
            "Loop(precision='tf32') alone"
        )
    return None
