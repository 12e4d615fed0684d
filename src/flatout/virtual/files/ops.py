"""What this package must be able to ask of the virtual GPU, without importing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

KNOWN_ELEMENTS = 4096  # values of at most so many elements travel with a saved tensor


def _empty(elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    import torch

    if device.type == "cpu":
        return torch.zeros(elements, dtype=dtype)
    return torch.empty(elements, dtype=dtype, device=device)


@dataclass(frozen=True)
class TensorOps:
    """Questions to the virtual GPU about its tensors.

    `is_virtual(object)`: whether it is a tensor whose content is not in memory.
    `to_host(tensor)`: a real CPU tensor of the same shape with the known or invented values.
    `to_device(cpu_tensor, device)`: a virtual tensor on that device; small integer and boolean values stay known.
    `empty(elements, dtype, device)`: a one-dimensional tensor of unknown content on a virtual device or, for "cpu", on
    the host; the default makes it with ``torch.empty`` and ``torch.zeros``.
    `known(tensor)`: its values as a real CPU tensor if they are known rather than invented, else None; the default says
    so of integer and boolean tensors of at most `KNOWN_ELEMENTS` elements.
    """

    is_virtual: Callable[[Any], bool]
    to_host: Callable[[torch.Tensor], torch.Tensor]
    to_device: Callable[[torch.Tensor, torch.device], torch.Tensor]
    empty: Callable[[int, torch.dtype, torch.device], torch.Tensor] = field(default=_empty)
    known: Callable[[torch.Tensor], torch.Tensor | None] | None = None

    def known_values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values that shall travel with a saved tensor, or None."""
        if tensor.numel() > KNOWN_ELEMENTS:
            return None
        if self.known is not None:
            return self.known(tensor)
        if tensor.is_floating_point() or tensor.is_complex():
            return None
        return self.to_host(tensor)
