"""CUDA's own error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatout.virtual.dispatch import Operator


def device_mismatch(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception:
    """An operation was given tensors on the CPU and on the GPU."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    )
