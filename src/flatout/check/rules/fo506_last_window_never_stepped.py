"""FO506: in gradient accumulation, the batches after the last full window never lead to a step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.windows import Window


def find(module: Module) -> Iterator[Hit]:
    for test in _off_by_one_elsewhere(module):
        assert isinstance(test, ast.Compare)
        assert isinstance(test.left, ast.BinOp)
        yield _off_by_one(test, test.left.right, test.left.left)
    for window in module.windows.all:
        if _counts_from_zero(module, window):
            yield _off_by_one(window.test, window.size, window.counter)
            continue
        if not window.alone or not _counts_a_loader(module, window) or _stepped_later(module, window):
            continue
        size = ast.unparse(window.size)
        first = next(
            (statement for statement in module.tree.ancestors(window.test) if isinstance(statement, ast.If)), None
        )
        if first is None:
            continue
        yield Hit(
            first,
            f"a step is taken only where `{ast.unparse(window.test)}`: where the number of batches is no multiple of "
            f"`{size}`, the gradients of the last ones are lost or leak into the next epoch",
            f"Step at the last batch, too: `if {ast.unparse(window.test)} or {_last(window)}:`.",
        )


def _off_by_one_elsewhere(module: Module) -> Iterator[ast.expr]:
    """Tests `i % accumulation_steps == 0` around a step whose backward pass is in a function that the loop calls."""
    seen = [window.test for window in module.windows.all]
    for step in module.regions.optimizer_steps:
        loops = module.tree.loops(step)
        for test in module.conditions(step):
            if not loops or test in seen or not isinstance(test, ast.Compare) or not isinstance(test.left, ast.BinOp):
                continue
            size = ast.unparse(test.left.right)
            if isinstance(test.left.op, ast.Mod) and re.search(r"accum", size, re.I):
                window = Window(loops[0], test, test.left.right, test.left.left, step, [], True)
                if _counts_from_zero(module, window):
                    seen.append(test)
                    yield test


def _counts_from_zero(module: Module, window: Window) -> bool:
    """`i % n == 0` where `i` is the bare index of `enumerate(...)`: true for the very first batch."""
    loop = window.loop
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Tuple):
        return False
    index, counter = loop.target.elts[0], window.counter
    if not isinstance(index, ast.Name) or not isinstance(counter, ast.Name) or index.id != counter.id:
        return False
    if not isinstance(loop.iter.func, ast.Name) or loop.iter.func.id != "enumerate" or len(loop.iter.args) != 1:
        return False
    above = next((node for node in ast.walk(window.test) if isinstance(node, ast.Compare)), None)
    compared = above.comparators[0] if above is not None else None
    return not loop.iter.keywords and isinstance(compared, ast.Constant) and compared.value == 0 and window.alone


def _off_by_one(node: ast.expr, every: ast.expr, count: ast.expr) -> Hit:
    test, size, counter = ast.unparse(node), ast.unparse(every), ast.unparse(count)
    return Hit(
        node,
        f"`{test}` is true for the very first batch: the first step has one batch instead of `{size}`, and up to "
        f"`{size} - 1` batches at the end lead to none",
        f"Count from 1: `({counter} + 1) % {size} == 0`.",
    )


def _last(window: Window) -> str:
    assert isinstance(window.loop, ast.For)
    over = window.loop.iter
    assert isinstance(over, ast.Call)
    return f"{ast.unparse(window.counter)} == len({ast.unparse(over.args[0])})"


def _counts_a_loader(module: Module, window: Window) -> bool:
    """Whether the window counts the batches of one pass over a loader: `for i, batch in enumerate(loader)`."""
    loop = window.loop
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or not isinstance(loop.iter.func, ast.Name):
        return False
    if loop.iter.func.id != "enumerate" or not loop.iter.args or not isinstance(loop.target, ast.Tuple):
        return False
    index = loop.target.elts[0]
    counted = {node.id for node in ast.walk(window.counter) if isinstance(node, ast.Name)}
    if not isinstance(index, ast.Name) or index.id not in counted or len(counted) != 1:
        return False
    over = loop.iter.args[0]
    while isinstance(over, ast.Call) and over.args:
        over = over.args[0]
    return module.fact(over).kind == "DataLoader" or re.search(r"loader|_dl$|batches", ast.unparse(over)) is not None


def _stepped_later(module: Module, window: Window) -> bool:
    """Whether something else steps: after the loop, or in it under another condition; or the loader's length is "
    "fitted."""
    function = module.tree.function(window.step)
    for step in module.regions.optimizer_steps:
        if step is not window.step and module.tree.function(step) is function and not _same_block(module, step, window):
            return True
    size = re.escape(ast.unparse(window.size))
    return re.search(rf"len\([^)]*\)\s*(?://|%)\s*{size}\b", module.text.text) is not None


def _same_block(module: Module, step: ast.Call, window: Window) -> bool:
    return any(test is window.test for test in module.conditions(step))


RULE = Rule("FO506", "last-window-never-stepped", "medium", find, needs=("backward",))
