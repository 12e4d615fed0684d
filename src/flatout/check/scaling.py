"""How a module scales its losses: the calls of its GradScaler, and which code excludes which."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from flatout.check.tree import FUNCTIONS

if TYPE_CHECKING:
    from flatout.check.module import Module


def scaler_calls(module: Module, method: str) -> list[ast.Call]:
    """The calls `scaler.method(...)` on what surely is a GradScaler."""
    return [
        call
        for call in module.methods(method)
        if isinstance(call.func, ast.Attribute) and module.fact(call.func.value).kind == "GradScaler"
    ]


def exclude_each_other(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether two places never run in one pass: they stand in different branches of one `if` or `try`."""
    branches = dict(_branches(module, first))
    return any(branches.get(above, branch) != branch for above, branch in _branches(module, second))


def _branches(module: Module, node: ast.AST) -> list[tuple[ast.AST, str]]:
    found: list[tuple[ast.AST, str]] = []
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, FUNCTIONS) and isinstance(below, ast.stmt):
            break
        if isinstance(above, ast.If) and below is not above.test:
            found.append((above, "body" if below in above.body else "orelse"))
        elif isinstance(above, ast.Try) and below not in above.finalbody:
            found.append((above, "handlers" if below in above.handlers else "body"))
        below = above
    return found


def same_pass(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether both run in the same function and the same round of its innermost loop."""
    tree = module.tree
    return (
        tree.function(first) is tree.function(second)
        and tree.loops(first)[:1] == tree.loops(second)[:1]
        and not exclude_each_other(module, first, second)
    )


def before(first: ast.expr | ast.stmt, second: ast.expr | ast.stmt) -> bool:
    """Whether `first` stands before `second` in the source."""
    return (first.lineno, first.col_offset) < (second.lineno, second.col_offset)
