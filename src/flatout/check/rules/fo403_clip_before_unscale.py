"""FO403: gradients are clipped while they still carry the GradScaler's factor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.scaling import before, same_pass, scaler_calls
from flatout.check.tree import FUNCTIONS

CLIPS = tuple(
    f"torch.nn.utils.{name}" for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grad_value")
)


def find(module: Module) -> Iterator[Hit]:
    steps = scaler_calls(module, "step")
    scaled = [call for call in scaler_calls(module, "scale") if isinstance(module.tree.parent(call), ast.Attribute)]
    if not steps or not scaled:
        return
    for clip in module.calls(*CLIPS):
        later = [step for step in steps if before(clip, step) and _belong_together(module, clip, step)]
        earlier = [scale for scale in scaled if before(scale, clip) and _belong_together(module, scale, clip)]
        if not later or not earlier or _turned_off(module, clip) or _unscaled(module, clip):
            continue
        scaler = ast.unparse(later[0].func.value) if isinstance(later[0].func, ast.Attribute) else "scaler"
        optimizer = ast.unparse(later[0].args[0]) if later[0].args else "optimizer"
        name = ast.unparse(clip.func).rpartition(".")[2]
        yield Hit(
            clip,
            f"`{name}` clips gradients that are still multiplied by the scale of `{scaler}`: nearly every step is "
            "clipped, "
            "and far too hard",
            f"Call `{scaler}.unscale_({optimizer})` before `{name}`.",
        )


def _belong_together(module: Module, first: ast.Call, second: ast.Call) -> bool:
    """Whether both run in one pass; a step under `if (i + 1) % n == 0` is in the same loop, too."""
    return same_pass(module, first, second)


def _turned_off(module: Module, clip: ast.Call) -> bool:
    """Whether the clip stands under a condition that says there is no scaler: `if not use_amp`, `if scaler is None`."""
    for test in module.conditions(clip):
        for node in ast.walk(test):
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return True
            if isinstance(node, ast.Compare) and any(
                isinstance(item, ast.Constant) and (item.value is None or item.value is False)
                for item in node.comparators
            ):
                return not isinstance(node.ops[0], ast.IsNot | ast.NotEq)
    return False


def _unscaled(module: Module, clip: ast.Call) -> bool:
    """Whether something before the clip unscales, here or in a function of this module that is called before it."""
    function = module.tree.function(clip)
    for call in module.tree.nodes(ast.Call):
        if module.tree.function(call) is not function or not before(call, clip):
            continue
        if isinstance(call.func, ast.Attribute) and "unscale" in call.func.attr:
            return True
        target = module.functions.definition(call.func)
        if isinstance(target, FUNCTIONS) and "unscale" in ast.unparse(target):
            return True
    return False


RULE = Rule("FO403", "clip-before-unscale", "high", find, needs=("scaler", "GradScaler"), in_tests=True)
