"""Loops that only run a model forward: validation, testing, inference."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from flatout.check import contexts
from flatout.check.scaling import before
from flatout.check.torch_api import NO_GRADS
from flatout.check.tree import Loop

if TYPE_CHECKING:
    from flatout.check.module import Module

_NAME = re.compile(
    r"(?:^|_)(?:val|valid|validate|validation|eval|evaluate|evaluation|test|infer|inference|predict)(?:_|$)"
)
_LOSS = re.compile(r"loss|criterion|metric", re.I)
# Settings beyond a `with`: gradients turned off for the program, or asked for on purpose.
_ELSEWHERE = re.compile(
    r"requires_grad_?\(\s*False|requires_grad\s*=\s*False|set_grad_enabled\(|LightningModule|_set_grad"
)
_ON_PURPOSE = re.compile(r"requires_grad|autograd|enable_grad|\.backward\(|retain_grad|attack|perturb")
# A snippet may lack its imports; `.cuda()` says as much.
_TORCH = re.compile(r"^\s*(?:import|from) torch\b|\.cuda\(", re.M)
_OTHER = re.compile(r"^\s*(?:import|from) (?:jax|tensorflow|keras|paddle|mxnet|mlx|tinygrad)\b", re.M)
_HARMLESS_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})
_UNCLEAR = re.compile(r"grad|infer|ctx|context|eval|stack", re.I)


class EvaluationLoop(NamedTuple):
    """A loop, and the first call of a model in it."""

    loop: Loop
    call: ast.Call


class Evaluations:
    """The evaluation loops of one module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    @cached_property
    def loops(self) -> list[EvaluationLoop]:
        """Every loop that surely only evaluates, with gradients recorded or not; one a function and mode."""
        found: dict[Loop, ast.Call] = {}
        for call in self._module.tree.nodes(ast.Call):
            if (
                self._module.tree.loops(call)
                and self.runs_model(call)
                and (loop := self._evaluation_loop(call)) is not None
            ):
                first = found.get(loop)
                found[loop] = call if first is None or before(call, first) else first
        return [EvaluationLoop(loop, call) for loop, call in sorted(found.items(), key=lambda item: item[0].lineno)]

    def runs_model(self, call: ast.Call) -> bool:
        """Whether the call runs a model forward, and not a loss."""
        if not isinstance(call.func, ast.Name | ast.Attribute) or not (call.args or call.keywords):
            return False
        fact = self._module.fact(call.func)
        if fact.kind != "Module" or _LOSS.search(ast.unparse(call.func)):
            return False
        return not (fact.class_name or "").endswith("Loss")

    def _evaluation_loop(self, call: ast.Call) -> Loop | None:
        module, tree = self._module, self._module.tree
        function = tree.function(call)
        loops = [loop for loop in tree.loops(call) if tree.function(loop) is function]
        mode = self._last_mode(call)
        if mode is not None:
            if not _is_eval(module, mode):
                return None
            loops = [loop for loop in loops if before(mode, loop)]
        elif function is None or not _NAME.search(function.name):
            return None
        else:
            loops = [loop for loop in loops if isinstance(loop, ast.For) and self.over_loader(loop)]
        loops = [loop for loop in loops if loop not in module.regions.training_loops and not self._trains(loop)]
        return loops[-1] if loops and module.region(call) is None else None

    def _last_mode(self, call: ast.Call) -> ast.Call | None:
        """The last `model.eval()` or `model.train()` before the call, in its function."""
        function = self._module.tree.function(call)
        modes = [
            mode
            for mode in self._module.methods("eval", "train")
            if self._module.tree.function(mode) is function
            and before(mode, call)
            and not (mode.args and _is_method(mode, "eval"))  # pandas' and redis' eval take text
            and len(mode.args) < 2
        ]
        return modes[-1] if modes else None

    def over_loader(self, loop: ast.For) -> bool:
        """Whether the loop goes over the batches of a loader, by what it is or is called."""
        over = loop.iter
        while isinstance(over, ast.Call) and over.args:  # enumerate(tqdm(loader))
            over = over.args[0]
        fact = self._module.fact(over)
        return fact.kind == "DataLoader" or re.search(r"loader|_dl$", ast.unparse(over)) is not None

    def _trains(self, loop: Loop) -> bool:
        return bool(self._module.losses.in_loop(loop)) or any(
            loop in self._module.tree.loops(step) for step in self._module.regions.optimizer_steps
        )

    def records_graph(self, found: EvaluationLoop) -> bool:
        """Whether gradients are surely recorded in the loop, and nobody asked for them."""
        module = self._module
        function = module.tree.function(found.loop)
        text = module.text.text
        if _ELSEWHERE.search(text) or _OTHER.search(text) or not _TORCH.search(text):
            return False
        if _ON_PURPOSE.search(module.text.of(function if function is not None else found.loop)):
            return False
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(found.loop)):
            return False
        return self._is_on(found.call, 0)

    def _is_on(self, node: ast.AST, depth: int) -> bool:
        module = self._module
        if any(self._is_unclear(manager) for manager in contexts.managers(module, node)):
            return False
        if contexts.grad_mode(module, node) is False or depth > 3:
            return False
        function = module.tree.function(node)
        calls = module.functions.calls_of(function) if function is not None else []
        return all(self._is_on(call, depth + 1) for call in calls)

    def _is_unclear(self, manager: ast.expr) -> bool:
        """Whether a context manager or decorator could turn gradients off: not one that is known not to."""
        module = self._module
        call = module.origin(manager)
        func = call.func if isinstance(call, ast.Call) else call
        name = module.qualified(func) or ""
        if name in NO_GRADS or name == "torch.enable_grad" or contexts.as_autocast(module, manager) is not None:
            return False
        parent = module.tree.parent(manager)
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return not (isinstance(manager, ast.Name) and manager.id in _HARMLESS_DECORATORS)
        return not isinstance(call, ast.Call) or _UNCLEAR.search(ast.unparse(func)) is not None


def _is_method(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


def _is_eval(module: Module, mode: ast.Call) -> bool:
    if _is_method(mode, "eval"):
        return True
    return bool(mode.args) and module.constant(mode.args[0]) is False
