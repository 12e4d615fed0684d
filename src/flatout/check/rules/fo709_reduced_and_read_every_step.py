"""FO709: a value averaged over the ranks and read on the host on each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.ranks import collective
from flatout.check.rule import Hit, Rule
from flatout.check.rules.fo704_barrier_every_step import runs_every_step
from flatout.check.scaling import before
from flatout.check.tree import Function

_REDUCING = frozenset({"all_reduce", "reduce"})
_READING = frozenset({"float", "int", "print"})


def find(module: Module) -> Iterator[Hit]:
    told: set[ast.AST] = set()  # one a loop: the first read is what costs
    for call in module.tree.nodes(ast.Call):
        if collective(module, call) not in _REDUCING or not runs_every_step(module, call):
            continue
        if not call.args or not isinstance(call.args[0], ast.Name):
            continue
        name, region = call.args[0].id, module.region(call)
        assert region is not None
        if region.loop is not None:
            read = _read(module, name, call, region.loop)
        elif region.kind == "called":
            read = _read_by_callers(module, call, name)
        else:
            read = None
        if read is not None and region.node not in told:
            told.add(region.node)
            yield Hit(
                call,
                f"`{name}` is reduced over all ranks and read (line {read.lineno}) on each step: the host waits for "
                "the slowest rank before it can go on",
                "Add it up on the GPU (`total += loss.detach()`); reduce and read the total every N steps.",
                evidence={"read_line": read.lineno},
            )


def _read(module: Module, name: str, after: ast.Call, within: ast.stmt) -> ast.expr | None:
    """The first place behind `after` that reads the variable on the host, each time round."""
    for node in ast.walk(within):
        if isinstance(node, ast.Call) and before(after, node) and _reads(node, name) and not module.is_rare(node):
            return node
    return None


def _reads(call: ast.Call, name: str) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in ("item", "tolist") and not call.args:
        return _root(func.value) == name
    return isinstance(func, ast.Name) and func.id in _READING and any(_root(value) == name for value in call.args)


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.BinOp):
        node = node.left
    return node.id if isinstance(node, ast.Name) else None


def _read_by_callers(module: Module, call: ast.Call, name: str) -> ast.expr | None:
    """The same where a helper reduces (`def reduce_mean(tensor)`): in it, or by who calls it."""
    function = module.tree.function(call)
    if function is None:
        return None
    found = _read(module, name, call, function)
    if found is not None:
        return found
    if not _returns(module, function, name):
        return None
    for caller in module.functions.calls_of(function):
        region, above = module.region(caller), module.tree.parent(caller)
        if region is None or region.loop is None or module.is_rare(caller):
            continue
        if isinstance(above, ast.Attribute) and above.attr == "item":
            return above
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            found = _read(module, above.targets[0].id, caller, region.loop)
            if found is not None:
                return found
    return None


def _returns(module: Module, function: Function, name: str) -> bool:
    values = module.functions.returns(function)
    return bool(values) and all(_root(value) == name for value in values)


RULE = Rule("FO709", "reduced-and-read-every-step", "medium", find, needs=("all_reduce", "reduce("))
