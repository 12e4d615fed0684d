"""FO508: `zero_grad(set_to_none=False)`: gradients are written with zeros and kept, where None would free them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

# Gradients that must stay where they are: captured graphs, buffers of a reducer.
_FIXED = re.compile(r"CUDAGraph|cuda\.graph|make_graphed|capturable|gradient_as_bucket_view|\.grad\b")


def find(module: Module) -> Iterator[Hit]:
    if _FIXED.search(module.text.text):
        return
    for call in module.methods("zero_grad"):
        value = argument(call, 0, "set_to_none")
        if not isinstance(value, ast.Constant) or value.value is not False or module.region(call) is None:
            continue
        yield Hit(
            call,
            f"`{ast.unparse(call)}` writes zeros over every gradient each step and keeps their memory during the "
            "forward "
            "pass",
            "Leave `set_to_none=False` away: the gradients become None.",
        )


RULE = Rule("FO508", "zero-grad-keeps-memory", "low", find, needs=("set_to_none", "zero_grad(False"))
