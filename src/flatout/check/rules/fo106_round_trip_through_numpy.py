"""FO106: a tensor goes from the GPU to NumPy and back to the GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import devices_in_call
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_BACK = ("torch.from_numpy", "torch.tensor", "torch.as_tensor")


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*_BACK):
        above = module.tree.parent(call)
        moved = module.tree.parent(above) if isinstance(above, ast.Attribute) else None
        if not isinstance(moved, ast.Call) or not _goes_to_gpu(module, moved) or not call.args:
            continue
        if module.is_rare(call) or not module.uses_gpu:
            continue
        left = _where_it_left(module, call.args[0])
        if left is not None:
            yield Hit(
                left,
                f"`{module.text.short(left)}` takes the values off the GPU, and line {call.lineno} puts them back: "
                "two copies, and the host waits for the first",
                "Do it on the GPU: PyTorch has most of NumPy's functions, with indexing and assignment as well.",
            )


def _goes_to_gpu(module: Module, moved: ast.Call) -> bool:
    assert isinstance(moved.func, ast.Attribute)
    return moved.func.attr in ("to", "cuda") and devices_in_call(module.facts, moved) not in ("cpu", None)


def _where_it_left(module: Module, array: ast.expr) -> ast.Call | None:
    """The call `x.cpu().numpy()` that the array surely comes from, in the same function."""
    came = _array_made(module, array)
    if came is None:
        return None
    if module.tree.function(came) is not module.tree.function(array):
        return None
    assert isinstance(came.func, ast.Attribute)
    inner: ast.expr = came.func.value
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
        if inner.func.attr == "cpu" and not module.fact(inner.func.value).on_cpu:
            return came
        inner = inner.func.value
    return None


def _array_made(module: Module, array: ast.expr) -> ast.Call | None:
    """The one call of `.numpy()` that an array comes from: through names, `.copy()`, and what NumPy makes of it."""
    for part in ast.walk(array):
        came = module.origin(part) if isinstance(part, ast.Name) else part
        for inner in ast.walk(came):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "numpy":
                return inner
    return None


RULE = Rule("FO106", "round-trip-through-numpy", "medium", find, needs=("numpy",))
