"""Which variables `backward` is called on."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flatout.check.module import Module


class Losses:
    """The losses of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def _backpropagated(self) -> set[tuple[ast.AST, str]]:
        found: set[tuple[ast.AST, str]] = set()
        for call in self._module.methods("backward", "manual_backward"):
            assert isinstance(call.func, ast.Attribute)
            loss: ast.expr = call.func.value
            if isinstance(loss, ast.Call) and loss.args:  # scaler.scale(loss).backward()
                loss = loss.args[0]
            elif call.args and self.fact_kind_is_not_tensor(loss):  # accelerator.backward(loss)
                loss = call.args[0]
            while isinstance(loss, ast.BinOp):
                loss = loss.left if isinstance(loss.left, ast.Name) else loss.right
            if isinstance(loss, ast.Name) and (owner := self._module.scopes.lookup(loss.id, loss)):
                found.add((owner[0], loss.id))
        return found

    def fact_kind_is_not_tensor(self, node: ast.expr) -> bool:
        """Whether `node`, which `backward` is called on, is rather a helper object: `accelerator.backward(loss)`."""
        word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return word in ("accelerator", "fabric", "self", "engine", "model_engine", "loop", "trainer", "amp")

    def is_backpropagated(self, node: ast.Name) -> bool:
        """Whether `backward` is called on the variable: then it is a tensor with a graph."""
        owner = self._module.scopes.lookup(node.id, node)
        return owner is not None and (owner[0], node.id) in self._backpropagated
