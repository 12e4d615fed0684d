"""FO404: `scaler.step` in a loop, and no `scaler.update` anywhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import scaler_calls


def find(module: Module) -> Iterator[Hit]:
    if module.methods("update") and any(_is_scaler_name(call) for call in module.methods("update")):
        return
    for step in scaler_calls(module, "step"):
        assert isinstance(step.func, ast.Attribute)
        if not _runs_again(module, step) or _handed_on(module, step.func.value):
            continue
        scaler = ast.unparse(step.func.value)
        yield Hit(
            step,
            f"`{scaler}.step` is never followed by `{scaler}.update()`: the second step raises RuntimeError",
            f"Call `{scaler}.update()` once after `{scaler}.step(...)`.",
        )


def _runs_again(module: Module, step: ast.Call) -> bool:
    """Whether the loop around the step is in this module, so that an update would be, too."""
    region, function = module.region(step), module.tree.function(step)
    return region is not None and (region.loop is not None or bool(function and module.functions.calls_of(function)))


def _is_scaler_name(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and "scaler" in ast.unparse(call.func.value).lower()


def _handed_on(module: Module, scaler: ast.expr) -> bool:
    """Whether the scaler is given to code that is not here and may update it."""
    name = ast.unparse(scaler)
    for call in module.tree.nodes(ast.Call):
        if module.functions.definition(call.func) is not None:
            continue
        values = [*call.args, *(item.value for item in call.keywords)]
        if any(isinstance(value, ast.Name | ast.Attribute) and ast.unparse(value) == name for value in values):
            return True
    return False


RULE = Rule("FO404", "scaler-never-updated", "high", find, needs=("scaler", "GradScaler"), in_tests=True)
