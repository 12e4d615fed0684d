"""Gradient accumulation: loops that run backward each time and step once a window."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.losses import Backward
from flatout.check.tree import Loop

if TYPE_CHECKING:
    from flatout.check.module import Module


class Window(NamedTuple):
    """One such loop. `size` is the number of batches a step; `alone`: no other condition lets a step happen."""

    loop: Loop
    test: ast.expr
    size: ast.expr
    counter: ast.expr
    step: ast.Call
    backwards: list[Backward]
    alone: bool


class Windows:
    """The accumulation windows of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def all(self) -> list[Window]:
        """One for each loop that accumulates."""
        found: dict[Loop, Window] = {}
        for step in self._module.regions.optimizer_steps:
            window = self._window(step)
            if window is not None:
                found.setdefault(window.loop, window)
        return list(found.values())

    def _window(self, step: ast.Call) -> Window | None:
        module, tree = self._module, self._module.tree
        loops = tree.loops(step)
        if not loops or tree.function(loops[0]) is not tree.function(step):
            return None
        loop = loops[0]
        for test in module.conditions(step):
            remainder = _remainder(module, test)
            if remainder is None or not self._holds(step, test):
                continue
            backwards = [found for found in module.losses.in_loop(loop) if not self._under(found.call, test)]
            if not backwards or any(tree.loops(found.call)[0] is not loop for found in backwards):
                return None
            size = module.constant(remainder.right)
            if size is not None and not (isinstance(size, int) and size > 1):
                return None
            if self._clears_or_steps_each_time(loop, test):
                return None
            alone = not isinstance(module.origin(test), ast.BoolOp)
            return Window(loop, test, remainder.right, remainder.left, step, backwards, alone)
        return None

    def _clears_or_steps_each_time(self, loop: Loop, test: ast.expr) -> bool:
        """Whether something in the loop, not under the test, ends the window: then nothing is accumulated."""
        calls = [*self._module.regions.optimizer_steps, *self._module.methods("zero_grad")]
        return any(self._module.tree.loops(call)[:1] == [loop] and not self._under(call, test) for call in calls)

    def _under(self, node: ast.AST, test: ast.expr) -> bool:
        return any(other is test for other in self._module.conditions(node))

    def _holds(self, node: ast.AST, test: ast.expr) -> bool:
        """Whether `node` runs where the test is true, not in its `else`."""
        above = self._module.tree.parent(test)
        return isinstance(above, ast.If) and any(self._module.tree.within(node, item) for item in above.body)


def _remainder(module: Module, test: ast.expr) -> ast.BinOp | None:
    """`(i + 1) % n` of a test that it is 0, or n - 1; also as a part of `... or last batch`."""
    for part in test.values if isinstance(test, ast.BoolOp) else [test]:
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            found: ast.expr = part.operand
        elif isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.Eq):
            found = part.left
        else:
            found = module.origin(part) if isinstance(part, ast.Name) else part
            if found is not part:
                return _remainder(module, found)
        if isinstance(found, ast.BinOp) and isinstance(found.op, ast.Mod):
            return found
    return None
