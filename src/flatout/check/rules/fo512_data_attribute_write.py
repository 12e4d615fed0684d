"""FO512: a tensor is changed through `.data`, behind autograd's back, while a graph may need its old values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    for node in module.tree.nodes(ast.Attribute):
        if node.attr != "data" or not module.fact(node.value).has_graph:
            continue
        if not _is_written(module, node) or module.grad_is_off(node):
            continue
        name = ast.unparse(node.value)
        yield Hit(
            node,
            f"`{name}` hangs on a graph and is changed through `.data`: autograd does not see it, and its gradients "
            "may be "
            "those of the old values",
            f"Compute a new tensor; where the change shall not count, `with torch.no_grad():` and `{name}` itself.",
        )


def _is_written(module: Module, node: ast.Attribute) -> bool:
    if isinstance(node.ctx, ast.Store):
        return True
    above = module.tree.parent(node)
    if isinstance(above, ast.Subscript):
        return isinstance(above.ctx, ast.Store)
    if isinstance(above, ast.AugAssign):
        return above.target is node
    return (
        isinstance(above, ast.Attribute)
        and above.attr.endswith("_")
        and not above.attr.startswith("_")
        and above.attr not in ("requires_grad_", "detach_")
        and isinstance(module.tree.parent(above), ast.Call)
    )


RULE = Rule("FO512", "data-attribute-write", "low", find, needs=(".data",))
