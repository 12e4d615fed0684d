"""Which code runs every step: loops that train, what they call, and the `forward` of layers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from flatout.check.tree import FUNCTIONS, Function, Loop

if TYPE_CHECKING:
    from flatout.check.module import Module

# Methods that stand for an optimizer step or a backward pass in the libraries that people train with.
_BACKWARD = frozenset({"backward", "manual_backward"})
_NOT_OPTIMIZERS = frozenset({"Scheduler", "Module", "DataLoader", "list", "dict", "str", "Tensor"})
_OPTIMIZER_WORDS = ("optim", "opt", "scaler", "solver")
_OTHER_WORDS = ("sched", "env", "profiler", "prof", "lr", "ema", "pbar", "bar", "warmup", "logger", "timer")


class Region(NamedTuple):
    """Code that runs every step. `loop` is the training loop, where it is in this function."""

    kind: Literal["train", "called", "forward"]
    node: Loop | Function

    @property
    def loop(self) -> Loop | None:
        return self.node if isinstance(self.node, ast.For | ast.AsyncFor | ast.While) else None


class Regions:
    """Finds the hot code of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.training_loops: dict[Loop, None] = {}
        self.hot_functions: dict[Function, None] = {}
        self.stepping_functions: set[Function] = set()
        self.optimizer_steps: list[ast.Call] = []  # `optimizer.step()`, `scaler.step(optimizer)`
        self._find_loops()
        self._find_functions()

    def of(self, node: ast.AST) -> Region | None:
        """The hot code that `node` is in, None if it runs once, or once an epoch."""
        tree = self._module.tree
        below: ast.AST = node
        for above in tree.ancestors(node):
            if above in self.training_loops and (isinstance(above, ast.While) or below in above.body):
                return Region("train", above)
            if isinstance(above, FUNCTIONS) and isinstance(below, ast.stmt):
                if self._is_forward(above):
                    return Region("forward", above)
                if above in self.hot_functions:
                    return Region("called", above)
            below = above
        return None

    def _is_forward(self, function: Function) -> bool:
        class_ = self._module.tree.parent(function)
        return function.name == "forward" and isinstance(class_, ast.ClassDef) and self._module.classes.is_layer(class_)

    # --- loops that train ---------------------------------------------------------------------------------------------

    def _find_loops(self) -> None:
        waiting = [call for call in self._module.tree.nodes(ast.Call) if self._steps(call)]
        self.optimizer_steps = [
            call for call in waiting if isinstance(call.func, ast.Attribute) and call.func.attr == "step"
        ]
        while waiting:
            call = waiting.pop()
            loop = self._innermost_loop(call)
            if loop is not None:
                self.training_loops[loop] = None
                continue
            function = self._module.tree.function(call)
            if function is not None and function not in self.stepping_functions and function.name != "main":
                self.stepping_functions.add(function)
                waiting += self._module.functions.calls_of(function)

    def _innermost_loop(self, call: ast.Call) -> Loop | None:
        """The loop that runs the call each time round: its own, or the one that a closure is defined in."""
        loops = self._module.tree.loops(call)
        return loops[0] if loops else None

    def _steps(self, call: ast.Call) -> bool:
        func = call.func
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in _BACKWARD:
            return not isinstance(func.value, ast.Name) or func.value.id not in ("ctx", "super")
        if func.attr != "step":
            return False
        kind = self._module.fact(func.value).kind
        if kind in ("Optimizer", "GradScaler"):
            return True
        if kind in _NOT_OPTIMIZERS:
            return False
        word = _last_word(func.value)
        return any(part in word for part in _OPTIMIZER_WORDS) and not any(part in word for part in _OTHER_WORDS)

    # --- functions that they call -------------------------------------------------------------------------------------

    def _find_functions(self) -> None:
        module = self._module
        for function in self.stepping_functions:
            self.hot_functions[function] = None
        waiting: list[ast.Call] = []
        for call in module.tree.nodes(ast.Call):
            if self.of(call) is not None and not module.is_rare(call):
                waiting.append(call)
        seen: set[ast.AST] = set()
        while waiting:
            target = module.functions.definition(waiting.pop().func)
            if not isinstance(target, FUNCTIONS) or target in seen or self._is_rare(target):
                continue
            seen.add(target)
            if not self._is_forward(target):
                self.hot_functions[target] = None
            waiting.extend(node for node in ast.walk(target) if isinstance(node, ast.Call))

    def _is_rare(self, function: Function) -> bool:
        """Whether all calls of the function stand under a condition that the step number decides."""
        calls = self._module.functions.calls_of(function)
        return bool(calls) and all(self._module.is_rare(call) for call in calls)


def _last_word(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "").lower()
