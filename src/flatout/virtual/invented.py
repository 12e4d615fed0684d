"""Values for what cannot be known: sensible, finite, and such that loops on them end."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual.tensor import allocation_of

_reads = 0


def scalar_like(tensor: torch.Tensor) -> Any:
    """A plausible value of a one-element tensor."""
    global _reads
    _reads += 1
    if tensor.dtype is torch.bool:
        return False
    if tensor.is_complex():
        return complex(1.0, 0.0)
    if tensor.is_floating_point():
        return 2.0 / (1.0 + 0.01 * _reads)
    bounds = allocation_of(tensor).bounds
    return bounds[0] if bounds else 1


def tensor_like(tensor: torch.Tensor) -> torch.Tensor:
    """A plausible CPU tensor of that shape and dtype."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype)
