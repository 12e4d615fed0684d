"""What the file guard asks of the virtual GPU's tensors, answered."""

from __future__ import annotations

from typing import Any

import torch

from flatout.virtual import invented, values
from flatout.virtual.files import TensorOps
from flatout.virtual.host import WEIGHT_BYTES, new_host_tensor
from flatout.virtual.tensor import is_virtual


def _is_virtual(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and is_virtual(value)


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    known = values.real(tensor)
    return invented.tensor_like(tensor) if known is None else known.clone()


def _empty(elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type != "cpu":
        return torch.empty(elements, dtype=dtype, device=device)
    if elements * dtype.itemsize >= WEIGHT_BYTES:
        return new_host_tensor((elements,), dtype)
    return torch.zeros(elements, dtype=dtype)


def tensor_ops() -> TensorOps:
    """The answers, bound together."""
    return TensorOps(
        is_virtual=_is_virtual,
        to_host=_to_host,
        to_device=lambda tensor, device: tensor.to(device),
        empty=_empty,
        known=values.real,
    )
