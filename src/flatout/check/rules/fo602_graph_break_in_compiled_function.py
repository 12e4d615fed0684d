"""FO602: calls and tests in a compiled function that the compiler cannot take in: it splits the function there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from flatout.check.compiled import compiled_functions
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS, Function
from flatout.check.words import words

# Each was run under `torch.compile(fullgraph=True)` with PyTorch 2.6, 2.13 and 2.14: all raise.
_CALLS = frozenset(
    words(
        "time.time time.perf_counter time.monotonic time.sleep warnings.warn torch.save "
        "logging.debug logging.info logging.warning logging.error"
    )
)
_BUILTINS = frozenset({"print", "input", "open", "breakpoint"})
_NUMBERS = frozenset({"float", "int", "bool"})
_REDUCTIONS = frozenset(words("any all sum mean max min norm item"))
# Code that asks whether it is compiled, and settings that make the compiler take such things in.
_AWARE = re.compile(r"is_compiling|is_dynamo_compiling|_dynamo\.config|compiler\.disable|_dynamo\.disable")


class _Break(NamedTuple):
    node: ast.expr
    why: str
    remedy: str
    always: bool  # with fullgraph=True it raises in every version


def find(module: Module) -> Iterator[Hit]:
    if _AWARE.search(module.text.text):
        return
    for function, is_full in compiled_functions(module).items():
        for found in _breaks(module, function):
            if module.tree.function(found.node) is not function or _is_conditional(module, found.node):
                continue
            if is_full and not found.always:
                continue
            what = "raises there" if is_full else "ends one graph and begins another"
            yield Hit(
                found.node,
                f"`{module.text.short(found.node)}` {found.why}: `{function.name}`, which is compiled"
                f"{' with `fullgraph=True`' if is_full else ''}, {what}",
                found.remedy,
                severity="high" if is_full else None,
            )


def _breaks(module: Module, function: Function) -> Iterator[_Break]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            found = _of_call(module, node)
            if found is not None:
                yield found
        elif isinstance(node, ast.If | ast.While) and _reads_values(module, node.test):
            yield _Break(
                node.test,
                "asks for values of a tensor",
                "Use `torch.where`, or decide outside of the compiled function.",
                True,
            )


def _of_call(module: Module, call: ast.Call) -> _Break | None:
    func = call.func
    name = module.qualified(func) if isinstance(func, ast.Name | ast.Attribute) else None
    if name in _CALLS or (isinstance(func, ast.Name) and func.id in _BUILTINS and name is None):
        if isinstance(func, ast.Name) and module.scopes.lookup(func.id, func) is not None and name is None:
            return None
        return _Break(call, "is no work for a GPU", "Move it out of the compiled function.", True)
    if isinstance(func, ast.Attribute) and func.attr in ("item", "tolist") and not call.args:
        return _Break(
            call,
            "reads values of a tensor",
            "Keep it a tensor; read it outside of the compiled function.",
            func.attr == "tolist",
        )
    if (
        isinstance(func, ast.Name)
        and func.id in _NUMBERS
        and len(call.args) == 1
        and module.fact(call.args[0]).is_tensor
    ):
        return _Break(
            call, "reads the value of a tensor", "Keep it a tensor; read it outside of the compiled function.", False
        )
    return None


def _reads_values(module: Module, test: ast.expr) -> bool:
    """Whether the truth of `test` surely depends on the values of a tensor."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _reads_values(module, test.operand)
    if isinstance(test, ast.BoolOp):
        return any(_reads_values(module, value) for value in test.values)
    if isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq):
            return False
        return _is_value(module, test.left) or _is_value(module, test.comparators[0])
    return _is_value(module, test)


def _is_value(module: Module, node: ast.expr) -> bool:
    if module.fact(node).is_tensor:
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.args:
        return False
    # `x.sum()`: in a compiled function that is a tensor's; `.item()` of one is told at the call.
    return node.func.attr in _REDUCTIONS - {"item"} and module.qualified(node.func) is None


def _is_conditional(module: Module, node: ast.expr) -> bool:
    """Whether the code may not run: then it is not compiled either."""
    above = module.tree.parent(node)
    own = above if isinstance(above, ast.If | ast.While) and above.test is node else None
    for ancestor in module.tree.ancestors(node):
        if isinstance(ancestor, FUNCTIONS):
            return False
        if isinstance(ancestor, ast.If | ast.IfExp | ast.ExceptHandler | ast.Assert) and ancestor is not own:
            return True
    return False


RULE = Rule("FO602", "graph-break-in-compiled-function", "medium", find, needs=("compile",))
