"""FO505: gradients of several batches are added up, and the loss of each is not divided by their number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.losses import Backward, loaded
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.windows import Window

_DIVISIONS = (ast.Div, ast.Mult, ast.FloorDiv)
_SUMS = re.compile(r"""reduction\s*=\s*["']sum|accelerat|deepspeed|[Ll]ightning|size_average\s*=\s*False""")


def find(module: Module) -> Iterator[Hit]:
    if _SUMS.search(module.text.text):
        return
    for window in module.windows.all:
        if _is_divided_by(module, window):
            continue
        for backward in window.backwards:
            if backward.loss is None or backward.by_helper or not _is_plain(module, backward, window):
                continue
            size, loss = ast.unparse(window.size), ast.unparse(backward.loss)
            yield Hit(
                backward.call,
                f"the gradients of `{size}` batches are summed and `{loss}` is not divided by `{size}`: the gradient "
                "of a "
                f"step is {_times(module, window)} the mean over its batches",
                f"Run backward on `{loss} / {size}`.",
                evidence={"step_line": window.step.lineno},
            )


def _times(module: Module, window: Window) -> str:
    size = module.constant(window.size)
    return f"{size} times" if isinstance(size, int) else f"`{ast.unparse(window.size)}` times"


def _is_divided_by(module: Module, window: Window) -> bool:
    """Whether the window's size, whatever for, divides or multiplies something in the module."""
    size = ast.unparse(window.size)
    parts: list[ast.expr] = []
    for sum_ in module.tree.nodes(ast.BinOp):
        if isinstance(sum_.op, _DIVISIONS):
            parts += (sum_.left, sum_.right)
    parts += [node.value for node in module.tree.nodes(ast.AugAssign) if isinstance(node.op, _DIVISIONS)]
    parts += [item for call in module.methods("div", "div_", "mul_", "mul") for item in call.args]
    return any(isinstance(node, ast.expr) and ast.unparse(node) == size for part in parts for node in ast.walk(part))


def _is_plain(module: Module, backward: Backward, window: Window) -> bool:
    """Whether the loss is surely a mean of the batch as it is: nothing in the loop divides or sums it."""
    loss = backward.loss
    if not isinstance(loss, ast.Name):
        return False
    seen = {loss.id}
    waiting = [loss]
    while waiting:
        name = waiting.pop()
        for binding in module.scopes.reaching(name.id, name):
            if not module.tree.within(binding.node, window.loop) or binding.value is None:
                continue
            if _scales(binding.node, binding.value):
                return False
            if isinstance(binding.value, ast.Name | ast.BinOp):
                new = [other for other in loaded(binding.value) if other.id not in seen]
                seen |= {other.id for other in new}
                waiting += new
    return True


def _scales(statement: ast.AST, value: ast.expr) -> bool:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _DIVISIONS):
        return True
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("sum", "div", "div_", "mul"):
            return True
    return False


RULE = Rule("FO505", "accumulated-loss-not-divided", "medium", find, needs=("backward",))
