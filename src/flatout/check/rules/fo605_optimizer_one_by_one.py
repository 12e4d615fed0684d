"""FO605: an optimizer that is told to update one parameter after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.fixes import remove_argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Fix


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    for call in module.calls("torch.optim."):
        name = module.qualified(call.func) or ""
        if name.count(".") != 2 or not name.rpartition(".")[2][:1].isupper():
            continue
        off = [item for item in call.keywords if item.arg in ("foreach", "fused") and _is(item.value, False)]
        if not off or any(_is(keyword(call, other), True) for other in ("foreach", "fused", "differentiable")):
            continue
        option = off[0]
        also = ", which turns `foreach` off, too," if option.arg == "fused" else ""
        fix = None
        if len(off) == 1:
            fix = Fix(f"Remove `{option.arg}=False`", (remove_argument(module, call, option),), "unsafe")
        yield Hit(
            option,
            f"`{option.arg}=False`{also} makes `{name.rpartition('.')[2]}` update one parameter after the other, with "
            "several kernels for each",
            f"Leave `{option.arg}` away (all parameters in a few kernels), or say `fused=True`.",
            fix,
        )


def _is(value: ast.expr | None, wanted: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted


RULE = Rule("FO605", "optimizer-one-by-one", "low", find, needs=("foreach", "fused"))
