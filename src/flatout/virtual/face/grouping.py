"""Tensors sorted by device and dtype, as optimizers and gradient clipping do before they take many at once."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.face.patches import Patches
from flatout.virtual.tensor import shown_device


def install(patches: Patches) -> None:
    """C++ sorts by the native device; the script is told the one that it knows."""
    plain: Any = torch._C._group_tensors_by_device_and_dtype

    def group(tensors: Any, with_indices: bool = False) -> dict[Any, Any]:
        return {(shown_device(device), dtype): found for (device, dtype), found in plain(tensors, with_indices).items()}

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", group)
