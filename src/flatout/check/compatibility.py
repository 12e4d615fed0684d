"""Code that serves several versions of PyTorch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatout.check.module import Module

_CAUGHT = ("Import", "Attribute", "Type", "Exception", "ModuleNotFound")
_TESTED = (
    "hasattr",
    "version",
    "torch_2",
    "torch_1",
    "torch2",
    "torch1",
    "is_torch",
    "torch_ge",
    "torch_greater",
    "torch_less",
)


def chosen_by_version(module: Module, node: ast.AST) -> bool:
    """Whether `node` stands in code that looks at what this PyTorch has: under a try, or a test of the version."""
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, ast.Try) and (below in above.body or below in above.handlers):
            caught = " ".join(ast.unparse(handler.type) for handler in above.handlers if handler.type)
            if above.handlers and (not caught or any(word in caught for word in _CAUGHT)):
                return True
        if isinstance(above, ast.If | ast.IfExp) and below is not above.test:
            test = ast.unparse(above.test).lower()
            if any(word in test for word in _TESTED):
                return True
        below = above
    return False
