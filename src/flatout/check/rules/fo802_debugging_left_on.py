"""FO802: switches for finding mistakes, left on for the whole training."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_BLOCKING = "CUDA_LAUNCH_BLOCKING"


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"):
        mode = argument(call, 0, "mode")
        is_on = True if mode is None else module.constant(mode)
        if is_on is True and not module.is_rare(call) and not _under_flag(module, call):
            yield Hit(
                call,
                f"`{module.text.short(call)}` checks every operation of every backward pass, and stays on",
                "Take it away, or put it behind a flag of the script's: it is for finding a NaN once.",
            )
    for target, value in _environment(module):
        if value == "1" and not _under_flag(module, target):
            yield Hit(
                target,
                f"`{_BLOCKING}=1` makes the host wait for every single kernel",
                "Take it away: it is for finding which operation failed, once.",
            )


def _environment(module: Module) -> Iterator[tuple[ast.expr, object]]:
    """Places that set the variable in `os.environ`, with the value."""
    for node in module.tree.nodes(ast.Subscript):
        if isinstance(node.ctx, ast.Store) and module.qualified(node.value) == "os.environ":
            above = module.tree.parent(node)
            if module.constant(node.slice) == _BLOCKING and isinstance(above, ast.Assign):
                yield node, module.constant(above.value)
    for call in module.calls("os.environ.setdefault", "os.putenv"):
        if len(call.args) == 2 and module.constant(call.args[0]) == _BLOCKING:
            yield call, module.constant(call.args[1])


def _under_flag(module: Module, node: ast.AST) -> bool:
    """Whether any `if` decides: then somebody asked for it."""
    return any(isinstance(above, ast.If) and not _is_main(above.test) for above in module.tree.ancestors(node))


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


RULE = Rule("FO802", "debugging-left-on", "medium", find, needs=("detect_anomaly", _BLOCKING))
