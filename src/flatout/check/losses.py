"""What `backward` is called on, and what flows into it."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.scopes import Scope

if TYPE_CHECKING:
    from flatout.check.module import Module

# Helper objects whose `backward` takes the loss as its argument.
_HELPERS = frozenset({"accelerator", "fabric", "self", "engine", "model_engine", "model", "loop", "trainer", "amp"})


class Backward(NamedTuple):
    """A backward pass. `loss` is None where it cannot be read; `by_helper`: an object of a library runs it."""

    call: ast.Call
    loss: ast.expr | None
    by_helper: bool

    @property
    def names(self) -> list[ast.Name]:
        """The variables that the loss is made of, in its own expression."""
        return loaded(self.loss) if self.loss is not None else []


class Losses:
    """The losses of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def backwards(self) -> list[Backward]:
        """Every backward pass of the module, in the order of the source."""
        return [found for call in self._module.methods("backward", "manual_backward") if (found := self._read(call))]

    def _read(self, call: ast.Call) -> Backward | None:
        assert isinstance(call.func, ast.Attribute)
        loss: ast.expr = call.func.value
        if isinstance(loss, ast.Call) and isinstance(loss.func, ast.Name) and loss.func.id == "super":
            return None
        if isinstance(loss, ast.Name) and (loss.id == "ctx" or self._names_a_class(loss)):
            return None  # the `backward` of an autograd Function
        if self._is_helper(loss):
            return Backward(call, call.args[0] if call.args else None, True)
        if isinstance(loss, ast.Call) and isinstance(loss.func, ast.Attribute) and loss.func.attr == "scale":
            loss = loss.args[0] if loss.args else loss
        return Backward(call, loss, False)

    def _names_a_class(self, node: ast.Name) -> bool:
        found = self._module.scopes.lookup(node.id, node)
        return found is not None and any(binding.kind in ("class", "import") for binding in found[1])

    def _is_helper(self, node: ast.expr) -> bool:
        word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return word in _HELPERS

    @cached_property
    def _backpropagated(self) -> set[ast.AST]:
        """The places that give a variable the value that `backward` is called on."""
        return {
            binding.node
            for backward in self.backwards
            for name in self._roots(backward)
            for binding in self._module.scopes.reaching(name.id, name)
        }

    def _roots(self, backward: Backward) -> list[ast.Name]:
        loss = backward.loss
        while isinstance(loss, ast.BinOp):
            loss = loss.left if isinstance(loss.left, ast.Name) else loss.right
        return [loss] if isinstance(loss, ast.Name) else []

    def is_backpropagated(self, node: ast.Name) -> bool:
        """Whether `backward` is called on the value that the variable has here: then it is a tensor with a graph."""
        places = self._backpropagated
        if not places:
            return False
        reaching = self._module.scopes.reaching(node.id, node)
        return bool(reaching) and all(binding.node in places for binding in reaching)

    # --- what the loss is made of -------------------------------------------------------------------------------------

    @cached_property
    def _flowing(self) -> dict[Scope, set[str]]:
        found: dict[Scope, set[str]] = {}
        for backward in self.backwards:
            names = backward.names
            found.setdefault(self._module.scopes.of(backward.call), set()).update(name.id for name in names)
        for call in self._module.calls("torch.autograd.grad", "torch.autograd.backward"):
            if call.args:
                roots = found.setdefault(self._module.scopes.of(call), set())
                roots.update(name.id for name in loaded(call.args[0]))
        for scope, flowing in found.items():
            waiting = list(flowing)
            while waiting:
                for binding in self._module.scopes.bindings(scope, waiting.pop()):
                    if binding.value is not None:
                        new = {name.id for name in loaded(binding.value)} - flowing
                        flowing |= new
                        waiting += new
        return found

    def flows_on(self, name: str, node: ast.AST) -> bool:
        """Whether the value of variable `name`, used at `node`, may become a part of a loss of the same function."""
        return name in self._flowing.get(self._module.scopes.of(node), ())

    def in_loop(self, loop: ast.stmt) -> list[Backward]:
        """The backward passes that the body of `loop` runs itself, in nested loops too."""
        tree = self._module.tree
        function = tree.function(loop)
        return [
            found
            for found in self.backwards
            if loop in tree.loops(found.call) and tree.function(found.call) is function
        ]


def loaded(node: ast.AST) -> list[ast.Name]:
    """The variables that an expression reads."""
    return [item for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)]
