"""Where a loop puts values that outlive its rounds: sums, lists, and meters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.losses import loaded
from flatout.check.tree import FUNCTIONS, Function

if TYPE_CHECKING:
    from flatout.check.module import Module

_ADDING = ("append", "add_", "extend")


class Kept(NamedTuple):
    """`value` becomes a part of `place`, a variable, attribute or item: a sum of it, or a list that holds it."""

    node: ast.stmt
    place: ast.expr
    value: ast.expr
    how: str  # "sum", "list" or "meter"


def kept_values(module: Module) -> Iterator[Kept]:
    """What statements of a module add to something: `a += b`, `a = a + b`, `a.append(b)`, `meter.update(b)`."""
    for node in module.tree.nodes(ast.AugAssign):
        if isinstance(node.op, ast.Add):
            if isinstance(node.value, ast.List) and len(node.value.elts) == 1:
                yield Kept(node, node.target, node.value.elts[0], "list")
            else:
                yield Kept(node, node.target, node.value, "sum")
    for assign in module.tree.nodes(ast.Assign):
        if len(assign.targets) == 1 and isinstance(assign.value, ast.BinOp) and isinstance(assign.value.op, ast.Add):
            target, sum_ = assign.targets[0], assign.value
            if not isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
                continue
            name = ast.unparse(target)
            for old, new in ((sum_.left, sum_.right), (sum_.right, sum_.left)):
                if isinstance(old, type(target)) and ast.unparse(old) == name:
                    yield Kept(assign, target, new, "sum")
                    break
    for call in module.methods("append"):
        if (statement := _alone(module, call)) and len(call.args) == 1 and not call.keywords:
            assert isinstance(call.func, ast.Attribute)
            yield Kept(statement, call.func.value, call.args[0], "list")
    for call in module.methods("update", "add"):
        if (statement := _alone(module, call)) and call.args and not isinstance(call.args[0], ast.Starred):
            assert isinstance(call.func, ast.Attribute)
            if _meter_sums(module, call.func):
                yield Kept(statement, call.func.value, call.args[0], "meter")


def _alone(module: Module, call: ast.Call) -> ast.stmt | None:
    above = module.tree.parent(call)
    return above if isinstance(above, ast.Expr) else None


def _meter_sums(module: Module, func: ast.Attribute) -> bool:
    """Whether the method is of a local class and adds its first argument to `self.something` as it is."""
    method = method_of_local_class(module, func)
    if method is None or len(method.args.args) < 2:
        return False
    value = method.args.args[1].arg
    for node in ast.walk(method):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == value for target in targets):
                return False  # it is made something else first: `val = float(val)`
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Attribute)
        and _passes_on(node.value, value)
        for node in ast.walk(method)
    )


def _passes_on(node: ast.expr, name: str) -> bool:
    """Whether an expression is the variable, or arithmetic with it: a call may read its value or cut it off."""
    if isinstance(node, ast.Name):
        return node.id == name
    return isinstance(node, ast.BinOp) and (_passes_on(node.left, name) or _passes_on(node.right, name))


def method_of_local_class(module: Module, func: ast.Attribute) -> Function | None:
    """The method that `object.name` is, where the object was surely made by calling a class of this module."""
    made = module.origin(func.value)
    if not isinstance(made, ast.Call):
        return None
    class_ = module.functions.definition(made.func)
    if not isinstance(class_, ast.ClassDef):
        return None
    return next((item for item in class_.body if isinstance(item, FUNCTIONS) and item.name == func.attr), None)


def root(place: ast.expr) -> ast.Name | None:
    """The variable that a place is reached through: `history` of `history["loss"]`, `self` of `self.losses`."""
    while isinstance(place, ast.Attribute | ast.Subscript):
        place = place.value
    return place if isinstance(place, ast.Name) else None


def outlives(module: Module, place: ast.expr, loop: ast.stmt) -> bool:
    """Whether what is put into `place` is still there in the next round of `loop`."""
    name = root(place)
    if name is None:
        return False
    found = module.scopes.lookup(name.id, name)
    if found is None:
        return False
    if isinstance(place, ast.Attribute) and name.id == "self":
        return not _set_in(module, place, loop)
    for binding in found[1]:
        if binding.kind == "augment" or not module.tree.within(binding.node, loop):
            continue
        if isinstance(binding.node, ast.Assign) and name.id in {item.id for item in loaded(binding.node.value)}:
            continue  # `total = total + loss`
        if not _is_rare_in(module, binding.node, loop):
            return False
    return True


def _set_in(module: Module, place: ast.Attribute, loop: ast.stmt) -> bool:
    wanted = ast.unparse(place)
    return any(
        isinstance(node, ast.Assign)
        and any(
            isinstance(t, ast.Attribute) and t.attr == place.attr and ast.unparse(t) == wanted for t in node.targets
        )
        and wanted not in ast.unparse(node.value)
        for node in ast.walk(loop)
    )


def _is_rare_in(module: Module, node: ast.AST, loop: ast.stmt) -> bool:
    return module.tree.loops(node)[:1] == [loop] and module.is_rare(node)
