"""What a call is given, also through `**options` that the module itself spells out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.devices import asks_for_gpu
from flatout.check.scopes import Binding

if TYPE_CHECKING:
    from flatout.check.module import Module

_FARTHEST = 4  # dicts put into dicts


class Options(NamedTuple):
    """The arguments of a call by name. `is_whole`: whether there can be no others."""

    values: dict[str, ast.expr]
    is_whole: bool


def options(module: Module, call: ast.Call, names: tuple[str, ...]) -> Options:
    """The arguments of `call`, whose positional parameters are called `names`."""
    values: dict[str, ast.expr] = {}
    is_whole = len(call.args) <= len(names)
    for name, value in zip(names, call.args):
        if isinstance(value, ast.Starred):
            is_whole = False
            break
        values[name] = value
    for item in call.keywords:
        if item.arg is not None:
            values[item.arg] = item.value
            continue
        more = _entries(module, item.value, _FARTHEST)
        values |= more.values
        is_whole = is_whole and more.is_whole
    return Options(values, is_whole)


def _entries(module: Module, node: ast.expr, depth: int) -> Options:
    """The entries of a dict that is written out: `{...}`, `dict(...)`, and what a name gets by `update` and `[...]`."""
    if depth == 0:
        return Options({}, False)
    if isinstance(node, ast.Name):
        return _of_name(module, node, depth)
    if isinstance(node, ast.IfExp) and asks_for_gpu(module.facts, node.test):
        return _entries(module, node.body, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return options(module, node, ())
    if not isinstance(node, ast.Dict):
        return Options({}, False)
    values: dict[str, ast.expr] = {}
    is_whole = True
    for key, value in zip(node.keys, node.values):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            values[key.value] = value
        elif key is None:
            more = _entries(module, value, depth - 1)
            values |= more.values
            is_whole = is_whole and more.is_whole
        else:
            is_whole = False
    return Options(values, is_whole)


def _of_name(module: Module, name: ast.Name, depth: int) -> Options:
    found = module.scopes.lookup(name.id, name)
    if found is None or len(found[1]) != 1 or found[1][0].kind != "assign" or found[1][0].path:
        return Options({}, False)
    scope, (binding,) = found
    known = module.spelled_dicts.get((scope, name.id))
    if known is None:
        known = module.spelled_dicts[scope, name.id] = _gathered(module, name, scope, binding, depth)
    return known


def _gathered(module: Module, name: ast.Name, scope: ast.AST, binding: Binding, depth: int) -> Options:
    """What a variable that begins as a dict holds in the end."""
    assert binding.value is not None
    values, is_whole = _entries(module, binding.value, depth - 1)
    values = dict(values)
    for call in module.methods("update", "pop", "setdefault", "clear", "popitem"):
        assert isinstance(call.func, ast.Attribute)
        if not _means(module, call.func.value, name.id, scope):
            continue
        more = _entries(module, call.args[0], depth - 1) if call.func.attr == "update" and call.args else None
        if more is None or not _always(module, call):
            is_whole = False
        else:
            values |= more.values
            is_whole = is_whole and more.is_whole
    for target in module.tree.nodes(ast.Subscript):
        if isinstance(target.ctx, ast.Load) or not _means(module, target.value, name.id, scope):
            continue
        assign = module.tree.parent(target)
        if isinstance(assign, ast.Assign) and isinstance(target.slice, ast.Constant) and _always(module, target):
            values[str(target.slice.value)] = assign.value
        else:
            is_whole = False
    return Options(values, is_whole)


def _means(module: Module, node: ast.expr, name: str, scope: ast.AST) -> bool:
    if not isinstance(node, ast.Name) or node.id != name:
        return False
    found = module.scopes.lookup(name, node)
    return found is not None and found[0] is scope


def _always(module: Module, node: ast.AST) -> bool:
    """Whether `node` runs whenever there is a GPU."""
    return all(asks_for_gpu(module.facts, test) for test in module.conditions(node))
