"""Naming devices as a machine with an accelerator does: ``torch.device(0)``, ``torch.Generator(device="cuda")``."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import machine as machines


def plain_int(value: Any) -> bool:
    """Whether the value is a number that names a GPU (``True`` does not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def device_argument(device: Any) -> torch.device:
    """The device that a script named with a string, number or device; a GPU always with its number.

    Raises CUDA's own error for a GPU that is not there.
    """
    if isinstance(device, int):
        device = torch.device("cuda", device)
    elif isinstance(device, str):
        device = torch.device(device)
    if device.type == "cuda":
        device = machines.current().gpu(device.index).device
    return device  # type: ignore[no-any-return]


def construct_device(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.device(...)``: a bare number names a GPU."""
    if len(args) == 1 and not kwargs and plain_int(args[0]):
        if args[0] < 0:
            raise RuntimeError("Device index must not be negative")
        return type.__call__(cls, "cuda", args[0])
    return type.__call__(cls, *args, **kwargs)
