"""State as plain things: what a checkpoint may hold, so that it is read back without running anything."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import torch

from flatout.errors import UsageError

_AS_IT_IS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


def plain(value: Any, name: str, *, copy: bool = False) -> Any:
    """`value` in numbers, strings, tensors, lists, tuples, sets and dictionaries of such.

    Subclasses become what they derive from (a NumPy float a float). With `copy` every tensor is a copy on the CPU, so
    that training may go on while the value is written. `name` is where the value comes from, for the error.

    Raises `UsageError` for anything else, since reading it back would run code from the file.
    """
    if isinstance(value, torch.Tensor):
        return _tensor(value, name, copy)
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, Mapping):
        parts = {plain(key, name): plain(part, f"{name}[{key!r}]", copy=copy) for key, part in value.items()}
        kind = next((kind for kind in (OrderedDict, Counter) if isinstance(value, kind)), None)
        return kind(parts) if kind else parts
    if isinstance(value, list | tuple | set):
        items = [plain(part, f"{name}[{i}]", copy=copy) for i, part in enumerate(value)]
        return next(kind for kind in (list, tuple, set) if isinstance(value, kind))(items)
    if isinstance(value, str):
        return str.__str__(value)  # str() of an enum is its name
    bases: tuple[type[Any], ...] = (int, float, complex, bytes)
    for base in bases:
        if isinstance(value, base):
            return base(value)
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise UsageError(
        f"loop.save(...): {name} is of type {type(value).__name__}; a checkpoint holds numbers, strings, tensors, "
        "lists, tuples, sets and dictionaries, because anything else would run code when it is read; save its parts"
    )


def _tensor(value: torch.Tensor, name: str, copy: bool) -> torch.Tensor:
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise UsageError(
            f"loop.save(...): {name} is a {type(value).__name__}, a tensor of a kind of its own, which reading a "
            "checkpoint does not rebuild; save the tensors that it is made of"
        )
    value = value.detach()
    if not copy:
        return value
    return value.clone() if value.device.type == "cpu" else value.cpu()
