"""FO709: a value averaged over the ranks and read on the host on each step."""

from __future__ import annotations

import ast
from collections import defaultdict
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
    reads = _reads(module)
    for call in module.tree.nodes(ast.Call):
        if collective(module, call) not in _REDUCING or module.region(call) is None:
            continue
        if not call.args or not isinstance(call.args[0], ast.Name):
            continue
        name, region = call.args[0].id, module.region(call)
        assert region is not None
        if region.node in told or not runs_every_step(module, call):
            continue
        if region.loop is not None:
            read = _read(module, reads, name, call, region.loop)
        elif region.kind == "called":
            read = _read_by_callers(module, reads, call, name)
        else:
            read = None
        if read is not None:
            told.add(region.node)
            yield Hit(
                call,
                f"`{name}` is reduced over all ranks and read (line {read.lineno}) on each step: the host waits for "
                "the slowest rank before it can go on",
                "Add it up on the GPU (`total += loss.detach()`); reduce and read the total every N steps.",
                evidence={"read_line": read.lineno},
            )


_Reads = dict[str, list[ast.Call]]


def _reads(module: Module) -> _Reads:
    """The calls that read a variable on the host, by its name, in source order."""
    found: defaultdict[str, list[ast.Call]] = defaultdict(list)
    for call in module.methods("item", "tolist"):
        assert isinstance(call.func, ast.Attribute)
        name = _root(call.func.value)
        if name is not None and not call.args:
            found[name].append(call)
    for call in module.tree.nodes(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in _READING:
            for name in {_root(value) for value in call.args} - {None}:
                found[str(name)].append(call)
    return found


def _read(module: Module, reads: _Reads, name: str, after: ast.Call, within: ast.stmt) -> ast.expr | None:
    """The first place behind `after` that reads the variable on the host, each time round."""
    end = within.end_lineno or within.lineno
    for call in reads.get(name, ()):
        if before(after, call) and call.lineno <= end and not module.is_rare(call):
            return call
    return None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.BinOp):
        node = node.left
    return node.id if isinstance(node, ast.Name) else None


def _read_by_callers(module: Module, reads: _Reads, call: ast.Call, name: str) -> ast.expr | None:
    """The same where a helper reduces (`def reduce_mean(tensor)`): in it, or by who calls it."""
    function = module.tree.function(call)
    if function is None:
        return None
    found = _read(module, reads, name, call, function)
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
            found = _read(module, reads, above.targets[0].id, caller, region.loop)
            if found is not None:
                return found
    return None


def _returns(module: Module, function: Function, name: str) -> bool:
    values = module.functions.returns(function)
    return bool(values) and all(_root(value) == name for value in values)


RULE = Rule("FO709", "reduced-and-read-every-step", "medium", find, needs=("all_reduce", "reduce("))
