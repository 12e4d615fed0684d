"""FO308: `torch.tensor` of a list of NumPy arrays, which it reads number by number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import insert_after
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import OLD_CONSTRUCTORS
from flatout.source import Edit, Fix


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls("torch.tensor", "torch.as_tensor", *sorted(OLD_CONSTRUCTORS)):
        if not call.args:
            continue
        data = call.args[0]
        fact = module.fact(data)
        if fact.kind not in ("list", "tuple"):
            continue
        held = [fact.element] if fact.element is not None else list(fact.items or ())
        if not held or any(item.kind != "ndarray" for item in held):
            continue
        yield Hit(
            call,
            f"`{module.text.short(call)}` reads a list of NumPy arrays number by number",
            f"Join them first: `np.array({module.text.short(data, 30)})`.",
            _fix(module, data),
        )


def _fix(module: Module, data: ast.expr) -> Fix | None:
    alias = next(
        (
            alias.asname or alias.name
            for node in module.tree.nodes(ast.Import)
            for alias in node.names
            if alias.name == "numpy" and module.tree.function(node) is None
        ),
        None,
    )
    if alias is None or not isinstance(data, ast.List | ast.ListComp | ast.Name | ast.Attribute):
        return None
    start = module.text.span(data).start
    return Fix(
        f"Join them with `{alias}.array`",
        (Edit(start, start, f"{alias}.array("), insert_after(module, data, ")")),
    )


RULE = Rule("FO308", "tensor-of-arrays", "medium", find, needs=("np.", "numpy"))
