"""Operations made from real calls on the CPU, as if they had run on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flatout.costs import Operation, TensorType


def type_of(tensor: torch.Tensor) -> TensorType:
    return TensorType(tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype).removeprefix("torch."))


def _argument(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return type_of(value)
    if isinstance(value, (list, tuple)):
        return tuple(_argument(item) for item in value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class Calls(TorchDispatchMode):
    """The operations that were called, with the FLOPs that PyTorch's own counter gives each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Operation, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.utils.flop_counter import flop_registry

        result = func(*args, **(kwargs or {}))
        outputs = result if isinstance(result, (list, tuple)) else (result,)
        new = [one for one in outputs if isinstance(one, torch.Tensor) and all(one is not a for a in args)]
        schema = func._schema
        written = tuple(
            i
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write and i < len(args)
        )
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        operation = Operation(
            name,
            tuple(_argument(value) for value in args),
            tuple((key, _argument(value)) for key, value in (kwargs or {}).items()),
            tuple(type_of(tensor) for tensor in new),
            written,
        )
        counter = flop_registry.get(func._overloadpacket)
        self.seen.append((operation, counter(*args, **(kwargs or {}), out_val=result) if counter else 0))
        return result


def calls_of(function: Callable[[], Any]) -> list[tuple[Operation, int]]:
    """What `function` calls, each with the FLOPs that PyTorch counts for it."""
    with Calls() as calls:
        function()
    return calls.seen
