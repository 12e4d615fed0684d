"""FO405: training under float16 autocast without a GradScaler: small gradients become zero."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import AUTOCASTS

# What scales losses, whatever it is called, or decides the precision elsewhere.
_SCALES = re.compile(
    r"scaler|scale_loss|loss_scal|\.scale\(|set_autocast|accelerat|deepspeed|apex|[Ff]abric|[Ll]ightning"
)


def find(module: Module) -> Iterator[Hit]:
    if not module.losses.backwards or _SCALES.search(module.text.text):
        return
    for call in module.calls(*sorted(AUTOCASTS)):
        statement = module.tree.parent(module.tree.parent(call) or call)
        if not isinstance(statement, ast.With | ast.AsyncWith):
            continue
        inside = module.autocast(statement.body[0])
        if inside is None or inside.call is not call or inside.device != "cuda" or inside.enabled is not True:
            continue
        if inside.dtype == "torch.float16" and _is_trained(module, statement):
            given = "float16, the default of CUDA," if _is_default(call) else "float16"
            yield Hit(
                call,
                f"this region computes in {given} and no GradScaler scales the loss: gradients below 6e-8 become zero",
                "Scale the loss with `torch.amp.GradScaler`, or autocast to `torch.bfloat16`, which needs none.",
            )


def _is_trained(module: Module, region: ast.With | ast.AsyncWith) -> bool:
    """Whether a backward pass follows what the region computes, in the same function and loop."""
    if module.grad_is_off(region.body[0]):
        return False
    tree = module.tree
    return any(
        tree.function(found.call) is tree.function(region)
        and tree.loops(found.call)[:1] == tree.loops(region)[:1]
        and found.call.lineno >= region.lineno
        and not found.by_helper
        for found in module.losses.backwards
    )


def _is_default(call: ast.Call) -> bool:
    return not any(item.arg == "dtype" for item in call.keywords) and len(call.args) < 2


RULE = Rule("FO405", "fp16-without-scaler", "high", find, needs=("autocast",))
