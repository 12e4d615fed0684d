"""FO101: the host reads a value of the GPU every step, and waits for it each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import Loop
from flatout.check.waits import Wait
from flatout.findings import Severity


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    seen: set[ast.stmt] = set()
    for wait in module.waits:
        statement = module.tree.statement(wait.node)
        if statement in seen:
            continue
        how_often = _how_often(module, wait)
        if how_often is not None:
            seen.add(statement)
            words, severity = how_often
            yield Hit(
                wait.node,
                f"`{module.text.short(wait.node)}` makes the host wait for the GPU {words}",
                _remedy(module, wait),
                severity=severity,
            )


def _how_often(module: Module, wait: Wait) -> tuple[str, Severity] | None:
    if module.is_rare(wait.node):
        return None
    region = module.region(wait.node)
    if region is not None:
        return ("in every forward pass" if region.kind == "forward" else "on every step"), "medium"
    if _brings_tensors_home(wait):
        return None  # predictions are collected on the host, where there is room for all
    loop = _batch_loop(module, wait.node)
    return ("for every batch", "low") if loop is not None else None


def _brings_tensors_home(wait: Wait) -> bool:
    return (
        isinstance(wait.node, ast.Call)
        and isinstance(wait.node.func, ast.Attribute)
        and wait.node.func.attr in COLLECTING
    )


def _batch_loop(module: Module, node: ast.AST) -> Loop | None:
    """The innermost loop around `node`, if it goes over the batches of a DataLoader."""
    loops = module.tree.loops(node)
    if loops and isinstance(loops[0], ast.For):
        iterated = module.fact(loops[0].iter)
        inner = loops[0].iter
        if iterated.kind == "DataLoader" or (
            isinstance(inner, ast.Call) and any(module.fact(value).kind == "DataLoader" for value in inner.args)
        ):
            return loops[0]
    return None


def _remedy(module: Module, wait: Wait) -> str:
    name = module.text.short(wait.value)
    if isinstance(wait.node, ast.Call) and isinstance(wait.node.func, ast.Attribute) and wait.node.func.attr == "item":
        return f"Keep it on the GPU (`{name}.detach()`) and read it once every many steps: `.item()` is the wait."
    if wait.node is wait.value:
        return "A condition or text needs the value now. Ask on the GPU (`torch.where`), or ask once every many steps."
    return f"Keep `{name}` on the GPU and read it once every many steps, or after the loop."


COLLECTING = ("cpu", "to", "numpy", "tolist")

RULE = Rule("FO101", "host-waits-for-gpu", "medium", find, needs=("cuda", "device", "mps", "xpu"))
