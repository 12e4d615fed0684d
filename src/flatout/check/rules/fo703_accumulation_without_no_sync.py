"""FO703: gradient accumulation with DistributedDataParallel that averages the gradients over all GPUs at each batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.losses import Backward
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import DISTRIBUTED_DATA_PARALLEL
from flatout.check.tree import Loop

# What keeps the gradients back in another way, or does the accumulation itself.
_HELD_BACK = re.compile(
    r"no_sync|require_backward_grad_sync|set_requires_gradient_sync|accelerat|deepspeed|lightning", re.I
)


def find(module: Module) -> Iterator[Hit]:
    if _HELD_BACK.search(module.text.text) or not module.calls(DISTRIBUTED_DATA_PARALLEL):
        return
    seen: set[ast.Call] = set()
    for backward, size in (*_windows(module), *_nested(module)):
        if backward.call in seen or backward.by_helper:
            continue
        seen.add(backward.call)
        yield Hit(
            backward.call,
            f"`{module.text.short(backward.call)}` averages the gradients over all GPUs for each of the `{size}` "
            "batches of a step, and only the last is needed",
            "Run forward and backward of all but the last batch under `model.no_sync()`.",
        )


def _windows(module: Module) -> Iterator[tuple[Backward, str]]:
    for window in module.windows.all:
        for backward in window.backwards:
            yield backward, ast.unparse(window.size)


def _nested(module: Module) -> Iterator[tuple[Backward, str]]:
    """`for part in range(n): ... backward()` inside of a loop that steps behind it."""
    tree = module.tree
    for backward in module.losses.backwards:
        loops = tree.loops(backward.call)
        if len(loops) < 2 or not isinstance(loops[0], ast.For):
            continue
        inner, outer = loops[0], loops[1]
        size = _size(module, inner)
        if size is None or _ends(module, inner) or not _steps_behind(module, inner, outer):
            continue
        yield backward, ast.unparse(size)


def _size(module: Module, loop: ast.For) -> ast.expr | None:
    """How many batches the loop takes: `range(n)`, `islice(batches, n)`."""
    over = loop.iter
    if not isinstance(over, ast.Call):
        return None
    if isinstance(over.func, ast.Name) and over.func.id == "range" and len(over.args) == 1:
        return over.args[0]
    if module.qualified(over.func) == "itertools.islice" and len(over.args) == 2:
        return over.args[1]
    return None


def _ends(module: Module, loop: Loop) -> bool:
    """Whether each round of the loop ends a window of its own."""
    return any(
        loop in module.tree.loops(call) for call in (*module.regions.optimizer_steps, *module.methods("zero_grad"))
    )


def _steps_behind(module: Module, inner: Loop, outer: Loop) -> bool:
    return any(
        module.tree.loops(step)[:1] == [outer] and step.lineno > inner.lineno for step in module.regions.optimizer_steps
    )


RULE = Rule("FO703", "accumulation-without-no-sync", "medium", find, needs=("DistributedDataParallel", "DDP"))
