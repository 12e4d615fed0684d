"""FO510: a tensor that grows by `torch.cat` in a loop: every round copies all that is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import Loop

CATS = tuple(f"torch.{name}" for name in ("cat", "concat", "concatenate", "hstack", "vstack", "row_stack"))
FEW = 16  # rounds that are not worth a word
_AROUND = ("enumerate", "tqdm", "track", "sorted", "reversed")
_DATA = re.compile(r"data|batch|sample|files|paths|images|frames|chunks|documents|sentences", re.I)


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*CATS):
        statement = module.tree.parent(call)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not call.args:
            continue
        target, parts = statement.targets[0], call.args[0]
        if not isinstance(parts, ast.Tuple | ast.List) or len(parts.elts) < 2:
            continue
        if not isinstance(target, ast.Name | ast.Attribute):
            continue
        grown = ast.unparse(target)
        loops = [loop for loop in module.tree.loops(call) if module.tree.function(loop) is module.tree.function(call)]
        if not loops or not any(ast.unparse(part) == grown for part in parts.elts):
            continue
        region = module.region(call)
        if (region is not None and region.kind == "forward") or not _is_long(module, call, loops[0]):
            continue
        if _generates(module, call, loops[0]) or _used_in_round(module, target, statement, loops[0]):
            continue
        name = ast.unparse(call.func)
        yield Hit(
            call,
            f"`{grown} = {name}(...)` in the loop copies all of `{grown}` each round: twice the rounds take four "
            "times the "
            "copying",
            f"Append the parts to a list, and call `{name}` once after the loop.",
        )


def _is_long(module: Module, call: ast.Call, loop: Loop) -> bool:
    """Whether the loop goes over data, or counts to a number that may be large; not over a handful of parts."""
    if not isinstance(loop, ast.For):
        return False
    if loop in module.regions.training_loops or module.evaluations.over_loader(loop):
        return True
    over = loop.iter
    while isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in _AROUND and over.args:
        over = over.args[0]
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in ("range", "trange"):
        ends = [module.constant(item) for item in over.args[:2]]
        end = ends[-1] if ends else None
        return end > FEW if isinstance(end, int) else _along_rows(module, call)
    return isinstance(over, ast.Name | ast.Attribute) and _DATA.search(ast.unparse(over)) is not None


def _along_rows(module: Module, call: ast.Call) -> bool:
    """Whether the parts are put one below the other; features and tokens are put side by side."""
    dimension = argument(call, 1, "dim")
    return dimension is None or module.constant(dimension) == 0


def _generates(module: Module, call: ast.Call, loop: Loop) -> bool:
    """Whether the loop runs a model, but not over a loader: it generates, and a token a round is nothing to copy."""
    over = loop.iter if isinstance(loop, ast.For) else None
    counted = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id in ("range", "trange")
    if counted and not _along_rows(module, call):
        return True
    runs = any(isinstance(node, ast.Call) and module.evaluations.runs_model(node) for node in ast.walk(loop))
    return runs and not (isinstance(loop, ast.For) and module.evaluations.over_loader(loop))


def _used_in_round(module: Module, target: ast.Name | ast.Attribute, statement: ast.Assign, loop: Loop) -> bool:
    """Whether the loop needs the whole tensor each round (generation, a queue), or starts a new one."""
    grown = ast.unparse(target)
    for node in ast.walk(loop):
        if (
            not isinstance(node, ast.Name | ast.Attribute)
            or ast.unparse(node) != grown
            or module.tree.within(node, statement)
        ):
            continue
        if isinstance(node.ctx, ast.Store):
            if not _is_first(module, node):
                return True
        elif not _is_test(module, node):
            return True
    return False


def _is_first(module: Module, node: ast.AST) -> bool:
    """Whether the other assignment is that of the first round: `if total is None: total = part`."""
    return bool(module.conditions(node))


def _is_test(module: Module, node: ast.AST) -> bool:
    """Whether the tensor is only asked about: `x is None`, `len(x)`, `x.shape`."""
    above = module.tree.parent(node)
    if isinstance(above, ast.Compare):
        return all(isinstance(op, ast.Is | ast.IsNot) for op in above.ops)
    if isinstance(above, ast.Call):
        return isinstance(above.func, ast.Name) and above.func.id in ("len", "print")
    return isinstance(above, ast.Attribute) and above.attr in ("shape", "size", "numel", "dim", "ndim")


RULE = Rule("FO510", "cat-in-loop", "medium", find, needs=("cat", "stack"))
