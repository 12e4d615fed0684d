from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    """Every `x.item()`; the fix takes the call away."""
    for node in ast.walk(ast.parse(module.text.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
            base = module.text.of(node.func.value)
            span = module.text.span(node)
            fix = Fix("Read it later", (Edit(module.text.span(node.func.value).end, span.end, ""),))
            yield Hit(node, f"`{base}.item()` waits", "read it rarely", fix, evidence={"name": base})


RULE = Rule("FO101", "toy-item", "high", find, needs=("item",))
