"""FO410: a GradScaler is made each epoch or step, so the scale that it has found is thrown away."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import SCALERS
from flatout.check.tree import Loop


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*sorted(SCALERS)):
        loop = _loop_around(module, call)
        if loop is None or not _trains(module, loop) or _starts_over(module, loop, call):
            continue
        statement = module.tree.statement(call)
        name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else "this GradScaler"
        often = "step" if loop in module.regions.training_loops else "epoch"
        yield Hit(
            call,
            f"`{name}` is made anew each {often} (the loop in line {loop.lineno}): it starts from the scale 65536 "
            "again and "
            "skips steps until it has found the right one",
            f"Make `{name}` once, before the loop.",
            evidence={"loop_line": loop.lineno},
        )


def _loop_around(module: Module, call: ast.Call) -> Loop | None:
    """The loop that runs the call again: around it, or around the one call of its function."""
    loops = module.tree.loops(call)
    if loops:
        return loops[0]
    function = module.tree.function(call)
    if function is None or function.name == "__init__":
        return None
    calls = module.functions.calls_of(function)
    around = [module.tree.loops(other) for other in calls]
    if len(calls) == 1 and around[0] and function in _functions_that_step(module):
        return around[0][0]
    return None


def _functions_that_step(module: Module) -> set[ast.AST]:
    return {function for step in module.regions.optimizer_steps if (function := module.tree.function(step))}


def _trains(module: Module, loop: Loop) -> bool:
    """Whether steps are taken in the loop: in itself, or in a function that it calls."""
    if any(loop in module.tree.loops(step) for step in module.regions.optimizer_steps):
        return True
    stepping = _functions_that_step(module)
    return any(
        isinstance(node, ast.Call) and module.functions.definition(node.func) in stepping for node in ast.walk(loop)
    )


def _starts_over(module: Module, loop: Loop, call: ast.Call) -> bool:
    """Whether the optimizer or the model is made anew with it: one training after another."""
    function = module.tree.function(call)
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and module.fact(node).kind in ("Optimizer", "Module") and _makes(module, node):
            return True
    return function is not None and any(
        isinstance(node, ast.Call) and module.fact(node).kind == "Optimizer" and _makes(module, node)
        for node in ast.walk(function)
        if module.tree.function(node) is function and not module.tree.loops(call)
    )


def _makes(module: Module, node: ast.Call) -> bool:
    """Whether the call is of a class, not of a method that gives its own object back: `model.train()`."""
    name = module.qualified(node.func)
    return name is not None or isinstance(module.functions.definition(node.func), ast.ClassDef)


RULE = Rule("FO410", "scaler-made-again", "medium", find, needs=("GradScaler",))
