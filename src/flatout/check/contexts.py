"""Under what a node runs: no_grad, autocast, conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.devices import argument
from flatout.check.torch_api import AUTOCASTS, NO_GRADS
from flatout.check.tree import FUNCTIONS, LOOPS

if TYPE_CHECKING:
    from flatout.check.module import Module


class Autocast(NamedTuple):
    """An autocast region: the call that opens it, its device type, dtype (qualified) and whether it is on."""

    call: ast.Call
    device: str | None
    dtype: str | None
    enabled: bool | None


def managers(module: Module, node: ast.AST) -> Iterator[ast.expr]:
    """The context managers and decorators that `node` runs under, innermost first, within its function."""
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, ast.With | ast.AsyncWith) and isinstance(below, ast.stmt):
            yield from (item.context_expr for item in reversed(above.items))
        elif isinstance(above, FUNCTIONS) and isinstance(below, ast.stmt):
            yield from above.decorator_list
            return
        below = above


def grad_mode(module: Module, node: ast.AST) -> bool | None:
    """Whether gradients are recorded: False under no_grad and its kin, True under enable_grad, None by default."""
    for manager in managers(module, node):
        call = manager if isinstance(manager, ast.Call) else None
        name = module.qualified(call.func if call else manager)
        if name in NO_GRADS:
            mode = argument(call, 0, "mode") if call and name == "torch.inference_mode" else None
            return mode is not None and module.constant(mode) is False
        if name == "torch.enable_grad":
            return True
        if name == "torch.set_grad_enabled" and call and call.args:
            value = module.constant(call.args[0])
            return value if isinstance(value, bool) else None
    return None


def grad_is_off(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Whether gradients are surely not recorded: here, or wherever the function is called from."""
    mode = grad_mode(module, node)
    if mode is not None:
        return not mode
    function = module.tree.function(node)
    if function is None or depth > 3:
        return False
    calls = module.functions.calls_of(function)
    return bool(calls) and all(grad_is_off(module, call, depth + 1) for call in calls)


def autocast(module: Module, node: ast.AST) -> Autocast | None:
    """The innermost autocast region around `node`, in its function."""
    for manager in managers(module, node):
        found = as_autocast(module, manager)
        if found is not None:
            return found
    return None


def as_autocast(module: Module, manager: ast.expr) -> Autocast | None:
    """`manager` as an autocast region; a name is followed to the call that made it."""
    call = module.origin(manager)
    if not isinstance(call, ast.Call):
        return None
    name = module.qualified(call.func)
    if name not in AUTOCASTS:
        return None
    if name == "torch.amp.autocast":
        device, dtype, enabled = (
            argument(call, 0, "device_type"),
            argument(call, 1, "dtype"),
            argument(call, 2, "enabled"),
        )
        kind = module.facts.device(device) if device is not None else None
    else:
        enabled, dtype = argument(call, 0, "enabled"), argument(call, 1, "dtype")
        kind = "cuda" if "cuda" in name else "cpu"
    precision = (
        module.fact(dtype).dtype
        if dtype is not None
        else {"cuda": "torch.float16", "cpu": "torch.bfloat16"}.get(kind or "")
    )
    is_on = True if enabled is None else module.constant(enabled)
    return Autocast(call, kind, precision, is_on if isinstance(is_on, bool) else None)


def conditions(module: Module, node: ast.AST) -> list[ast.expr]:
    """The tests around `node` up to its innermost loop or function, innermost first: of `if`s, and before an `and`."""
    found: list[ast.expr] = []
    below: ast.AST = node
    for above in module.tree.ancestors(node):
        if isinstance(above, ast.If | ast.IfExp) and below is not above.test:
            found.append(above.test)
        elif isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            found.extend(above.values[: above.values.index(below)])  # type: ignore[arg-type]
        elif isinstance(above, (*LOOPS, *FUNCTIONS)) and isinstance(below, ast.stmt):
            break
        below = above
    return found


# Words in a flag that says how the program runs, which is the same each step: `if use_amp`, `if self.training`.
_MODE_WORDS = re.compile(
    r"amp|cuda|gpu|train|distributed|ddp|scaler|clip|master|main|rank|phase|mode|grad|fp16|half", re.I
)


# What is compared with a number and stays the same: `rank == 0`, but not `training_step == 0`.
_COUNTED_MODES = re.compile(r"rank|phase|mode|master|gpu|device|world", re.I)


def is_rare(module: Module, node: ast.AST) -> bool:
    """Whether `node` stands under a condition that does not hold each time: `if step % 100 == 0`, `if should_log()`.

    A condition that only asks how the program runs (its phase, its rank, a flag of AMP, whether something is None)
    holds each time or never.
    """
    tests = conditions(module, node)
    return any(not _asks_for_mode(test) for test in tests) or _under_handler(module, node)


def _asks_for_mode(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp):
        return _asks_for_mode(test.operand)
    if isinstance(test, ast.BoolOp):
        return all(_asks_for_mode(value) for value in test.values)
    if isinstance(test, ast.Compare):
        constants = [item for item in test.comparators if isinstance(item, ast.Constant)]
        if any(item.value is None or isinstance(item.value, str) for item in constants):
            return True
        return _COUNTED_MODES.search(_word(test.left)) is not None and isinstance(test.ops[0], ast.Eq | ast.NotEq)
    if isinstance(test, ast.Call):
        return _word(test.func) == "is_available" or _MODE_WORDS.search(_word(test.func)) is not None
    return _MODE_WORDS.search(_word(test)) is not None


def _word(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _under_handler(module: Module, node: ast.AST) -> bool:
    return any(isinstance(above, ast.ExceptHandler) for above in module.tree.ancestors(node))
