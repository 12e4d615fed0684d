"""FO503: `backward(retain_graph=True)` each step, and nothing runs backward through that graph again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.carried import carried_in_layers, carried_state
from flatout.check.devices import argument, keyword
from flatout.check.fixes import remove_argument
from flatout.check.losses import Backward, loaded
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import before
from flatout.check.tree import Loop
from flatout.source import Fix

_RETAINING_POSITION = 1  # Tensor.backward(gradient, retain_graph, create_graph, inputs)


def find(module: Module) -> Iterator[Hit]:
    for backward in module.losses.backwards:
        call = backward.call
        value = (
            keyword(call, "retain_graph") if backward.by_helper else argument(call, _RETAINING_POSITION, "retain_graph")
        )
        if not isinstance(value, ast.Constant) or value.value is not True or keyword(call, "create_graph") is not None:
            continue
        loops = module.tree.loops(call)
        if not loops or _used_again(module, backward, loops[0]):
            continue
        states = [state.name for state in carried_state(module) if module.tree.loops(state.node)[0] is loops[0]]
        states += [name for _, name in carried_in_layers(module)]
        if states:
            yield _because_of_state(call, states[0])
        elif _made_in(module, backward, loops[0]):
            yield _needless(module, call)


def _because_of_state(call: ast.Call, state: str) -> Hit:
    return Hit(
        call,
        f"`retain_graph=True` is there because `{state}` carries the graph of the step before: each backward runs "
        "through "
        "all earlier steps",
        f"Detach `{state}` between steps, then call `{ast.unparse(call.func)}()`.",
    )


def _needless(module: Module, call: ast.Call) -> Hit:
    name = ast.unparse(call.func)
    option = next((item for item in call.keywords if item.arg == "retain_graph"), None)
    fix = None
    if option is not None:
        fix = Fix("Remove `retain_graph=True`", (remove_argument(module, call, option),), "unsafe")
    return Hit(
        call,
        f"`{name}(retain_graph=True)` keeps the activations of the step after backward, and nothing in the loop uses "
        "them "
        "again",
        f"Call `{name}()`.",
        fix,
    )


def _used_again(module: Module, backward: Backward, loop: Loop) -> bool:
    """Whether another backward pass, or code that is not here, may go through the graph later in the round."""
    tree = module.tree
    for other in module.losses.in_loop(loop):
        if other.call is not backward.call and (
            before(backward.call, other.call) or tree.loops(other.call)[0] is not loop
        ):
            return True
    for call in module.calls("torch.autograd.grad", "torch.autograd.backward"):
        if loop in tree.loops(call):
            return True
    # A function of this module that runs backward itself.
    running = {tree.function(other.call) for other in module.losses.backwards}
    return any(
        isinstance(node, ast.Call) and module.functions.definition(node.func) in running - {None, tree.function(loop)}
        for node in ast.walk(loop)
    )


def _made_in(module: Module, backward: Backward, loop: Loop) -> bool:
    """Whether the graph is made in this round: the loss comes from a model called in the loop, and all else does, "
    "too."""
    if backward.loss is None:
        return False
    waiting, seen, runs_model = list(loaded(backward.loss)), set(), _runs_model(module, backward.loss)
    while waiting:
        name = waiting.pop()
        if name.id in seen:
            continue
        seen.add(name.id)
        for binding in module.scopes.reaching(name.id, name):
            if binding.value is None or binding.kind == "loop" or not module.tree.within(binding.node, loop):
                if binding.kind == "assign" and binding.value is not None and module.fact(name).has_graph:
                    return False  # made before the loop: every round goes through it
                continue
            runs_model = runs_model or _runs_model(module, binding.value)
            waiting += loaded(binding.value)
    return runs_model


def _runs_model(module: Module, value: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and module.evaluations.runs_model(node) for node in ast.walk(value))


RULE = Rule("FO503", "retain-graph-in-loop", "medium", find, needs=("backward",))
