"""FO107: `torch.tensor(number, device="cuda")` on every step: a copy from the host, which waits for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_MAKERS = ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor")


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*_MAKERS):
        if keyword(call, "device") is None or not call.args or isinstance(call.args[0], ast.List | ast.Tuple):
            continue
        region = module.region(call)
        if (
            region is None
            or module.is_rare(call)
            or not module.fact(call).on_gpu
            or not _is_number(module, call.args[0])
        ):
            continue
        number = module.text.short(call.args[0], 30)
        often = "in every forward pass" if region.kind == "forward" else "on every step"
        yield Hit(
            call,
            f"`{module.text.short(call)}` copies one number to the GPU {often}, and the host waits for the copy",
            f"Use `{number}` as it is: arithmetic with a tensor takes a Python number. Where a tensor is needed, "
            f"`torch.full((), {number}, device=...)` is filled on the GPU.",
        )


def _is_number(module: Module, value: ast.expr) -> bool:
    """Whether the value is surely a number of Python's."""
    fact = module.fact(value)
    if fact.kind in ("int", "float", "number", "bool"):
        return True
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("min", "max", "len", "float", "int") and all(
            not module.fact(argument).is_tensor for argument in value.args
        )
    return False


RULE = Rule("FO107", "number-copied-every-step", "medium", find, needs=("torch.",))
