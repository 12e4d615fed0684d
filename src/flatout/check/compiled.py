"""Which functions of a module are surely compiled by `torch.compile`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from flatout.check.devices import keyword
from flatout.check.tree import FUNCTIONS, Function

if TYPE_CHECKING:
    from flatout.check.module import Module

COMPILE = "torch.compile"


def compiled_functions(module: Module) -> dict[Function, bool]:
    """The compiled functions and `forward` methods; the value: compiled with `fullgraph=True`."""
    found: dict[Function, bool] = {}
    for function in module.tree.nodes(ast.FunctionDef):
        for decorator in function.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if module.qualified(call.func if call else decorator) == COMPILE:
                found[function] = _is_full(module, call)
    for call in module.calls(COMPILE):
        if call.args:
            _add(module, found, call.args[0], _is_full(module, call))
    for call in module.methods("compile"):
        assert isinstance(call.func, ast.Attribute)
        if module.fact(call.func.value).kind == "Module" and module.qualified(call.func) != COMPILE:
            _add(module, found, call.func.value, _is_full(module, call))
    return found


def _is_full(module: Module, call: ast.Call | None) -> bool:
    value = keyword(call, "fullgraph") if call is not None else None
    return value is not None and module.constant(value) is True


def _add(module: Module, found: dict[Function, bool], node: ast.expr, is_full: bool) -> None:
    target = module.functions.definition(node) if isinstance(node, ast.Name | ast.Attribute) else None
    if isinstance(target, FUNCTIONS):
        found.setdefault(target, is_full)
        return
    name = module.fact(node).class_name
    for class_ in module.tree.nodes(ast.ClassDef):
        if class_.name == name and module.classes.is_layer(class_):
            for item in class_.body:
                if isinstance(item, FUNCTIONS) and item.name == "forward":
                    found.setdefault(item, is_full)
