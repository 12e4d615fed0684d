"""FO507: backward and step in a loop, and nothing ever clears the gradients."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_CLEARS = re.compile(
    r"zero_grad|zero_gradient|clear_grad|\.grad\s*=|\.grad\.zero_|\.grad\.data\.zero_|set_to_none|grad\.detach_|"
    r"deepspeed|accelerat|[Ll]ightning|[Ff]abric|functional_call"
)


def find(module: Module) -> Iterator[Hit]:
    if _CLEARS.search(module.text.text):
        return
    seen: set[ast.AST] = set()
    for step in module.regions.optimizer_steps:
        assert isinstance(step.func, ast.Attribute)
        optimizer = step.args[0] if step.args and module.fact(step.func.value).kind == "GradScaler" else step.func.value
        loops = module.tree.loops(step)
        if not loops or loops[0] in seen or module.fact(optimizer).kind != "Optimizer":
            continue
        if step.args and optimizer is step.func.value:
            continue  # a closure may clear them
        before = [
            found
            for found in module.losses.in_loop(loops[0])
            if not found.by_helper and found.call.lineno <= step.lineno
        ]
        if not before:
            continue
        seen.add(loops[0])
        name = ast.unparse(optimizer)
        yield Hit(
            step,
            f"nothing in this file clears the gradients: `{name}.step()` steps along the sum of the gradients of all "
            "batches so far",
            f"Call `{name}.zero_grad()` once a step, before `{ast.unparse(before[-1].call.func)}()` or after the step.",
        )


RULE = Rule("FO507", "gradients-never-cleared", "high", find, needs=("backward",), in_tests=True)
