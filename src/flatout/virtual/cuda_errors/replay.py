"""The words of PyTorch's C++ for a call that its Python shape rules refused.

PyTorch's meta kernels are partly written in Python and paraphrase their errors. The C++ rules are shared by the CPU and
CUDA, so a refused call is tried again on real CPU tensors of the same shapes, only to hear what C++ says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from flatout.virtual.cuda_errors.shown import as_shown

if TYPE_CHECKING:
    from flatout.virtual.operators import Operator

LARGEST_ELEMENTS = 1 << 20
"""Tensors above this many elements are replayed as one element seen many times, so that nothing large is allocated."""

_OVERLAP = "refers to a single memory location"


def as_cuda_says(op: Operator, args: Sequence[Any], kwargs: dict[str, Any], error: Exception) -> Exception:
    """The exception to raise in place of `error`, which PyTorch's meta kernel raised."""
    heard = heard_on_cpu(op, args, kwargs)
    if heard is None:
        return type(error)(as_shown(str(error))) if isinstance(error, (RuntimeError, ValueError, IndexError)) else error
    return heard


def raise_if_refused(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise what C++ raises on the CPU for tensors of these shapes and types, if it does."""
    heard = heard_on_cpu(op, args, kwargs)
    if heard is not None:
        raise heard


def heard_on_cpu(op: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
    """What the CPU's kernel raises for such arguments; None where it does not mind, or has only words of its own."""
    if not op.name.startswith("aten::"):
        return None  # a user's own kernel is not run on the sly
    try:
        with torch._C.DisableTorchFunction():
            op.overload(*[_real(value) for value in args], **{name: _real(value) for name, value in kwargs.items()})
    except (RuntimeError, IndexError, ValueError, TypeError) as heard:
        text = str(heard)
        if _OVERLAP in text and any(tensor.numel() > LARGEST_ELEMENTS for tensor in _tensors(args, kwargs)):
            return None  # said of the replayed tensor, not of the script's
        if "not implemented for" in text or "_cpu" in text or "'CPU' backend" in text:
            return None
        return type(heard)(text.replace("torch.FloatTensor", "torch.cuda.FloatTensor"))
    return None


def _tensors(args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]


def _real(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _plain(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_real(item) for item in value])
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.Generator):
        return None
    return value


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() > LARGEST_ELEMENTS or tensor.layout is not torch.strided:
        return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
    return torch.zeros(0, dtype=tensor.dtype).new_empty_strided(tensor.shape, tensor.stride()).zero_()
