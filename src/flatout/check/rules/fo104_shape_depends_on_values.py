"""FO104: an operation whose result has as many elements as the values say: the host must wait to learn how many."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import argument, keyword
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import Tree

COUNTING = ("nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "argwhere")


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    found = [*_calls(module), *_masks(module)]
    for node, value in sorted(found, key=lambda item: (item[0].lineno, item[0].col_offset)):
        fact = module.fact(value)
        region = module.region(node)
        if not (fact.is_tensor and fact.on_gpu) or region is None or module.is_rare(node):
            continue
        often = "in every forward pass" if region.kind == "forward" else "on every step"
        yield Hit(
            node,
            f"how many elements `{module.text.short(node)}` has depends on values: the host waits for the GPU {often}",
            _remedy(node),
        )


def _calls(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Calls that count, with the tensor that they look at."""
    for call in module.methods(*COUNTING):
        assert isinstance(call.func, ast.Attribute)
        if module.qualified(call.func) is None:
            yield call, call.func.value
    for call in module.calls(*(f"torch.{name}" for name in COUNTING)):
        if call.args:
            yield call, call.args[0]
    for call in module.calls("torch.where"):
        if len(call.args) == 1 and not call.keywords:
            yield call, call.args[0]
    for call in module.calls("torch.repeat_interleave"):
        repeats = argument(call, 1, "repeats")
        if repeats is not None and keyword(call, "output_size") is None:
            yield call, repeats
    for call in module.methods("repeat_interleave"):
        repeats = argument(call, 0, "repeats")
        if module.qualified(call.func) is None and repeats is not None and keyword(call, "output_size") is None:
            yield call, repeats


def _masks(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """`x[mask]` that is read: writing through a mask needs no count."""
    for node in module.tree.nodes(ast.Subscript):
        if isinstance(node.ctx, ast.Load) and not _is_written(module.tree, node):
            fact = module.fact(node.slice)
            if fact.is_tensor and fact.dtype == "torch.bool":
                yield node, node.slice


def _is_written(tree: Tree, node: ast.Subscript) -> bool:
    above = tree.parent(node)
    return isinstance(above, ast.AugAssign) and above.target is node


def _remedy(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return "Keep the shape and choose by value: `torch.where(mask, x, 0)`, or multiply by the mask."
    if isinstance(node, ast.Call) and "repeat_interleave" in ast.unparse(node.func):
        return "Give `output_size`, if it is known: then nobody has to wait."
    return "Keep the shape and choose by value (`torch.where` with three arguments), or count on the CPU beforehand."


RULE = Rule("FO104", "shape-depends-on-values", "medium", find, needs=("cuda", "device", "mps", "xpu"))
