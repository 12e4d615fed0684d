from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Edit, Fix

FIXES = {
    "risky": ("calm", "unsafe"),
    "shown": ("seen", "display"),
    "broken": ("1 2 3", "safe"),
    "endless": ("endless", "safe"),
}


def find(module: Module) -> Iterator[Hit]:
    """Names that ask for a fix of each kind, and names at which the rule itself goes wrong."""
    for node in ast.walk(ast.parse(module.text.text)):
        if isinstance(node, ast.Name):
            if node.id == "explode":
                raise KeyError("explode")
            if node.id == "recurse":
                raise RecursionError
            if node.id in FIXES:
                start, end = module.text.span(node)
                content, applicability = FIXES[node.id]
                edit = Edit(start, end, content) if node.id != "endless" else Edit(start, start, "endless + ")
                yield Hit(node, f"`{node.id}` is a toy", "", Fix(f"Write `{content}`", (edit,), applicability))


RULE = Rule("FO105", "toy-names", "low", find, needs=(*FIXES, "explode", "recurse"), in_tests=True)
