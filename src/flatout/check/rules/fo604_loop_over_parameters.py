"""FO604: a Python loop over the parameters in the step, a few small kernels for each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.words import words

_ITERATORS = frozenset({"parameters", "named_parameters"})
_IN_PLACE = frozenset(words("add_ sub_ mul_ copy_ lerp_ addcmul_ addcdiv_"))
_CLAMPS = frozenset(words("clamp_ clip_ clamp clip"))
Kind = Literal["update", "clip", "average"]


def find(module: Module) -> Iterator[Hit]:
    if not module.uses_gpu:
        return
    for loop in module.tree.nodes(ast.For):
        owners = _owners(loop.iter)
        region = module.region(loop)
        if not owners or region is None or region.kind == "forward" or module.is_rare(loop):
            continue
        kind = _kind(loop, len(owners))
        if kind is None:
            continue
        message, remedy = _said(kind, owners)
        yield Hit(loop.iter, message, remedy)


def _said(kind: Kind, owners: list[str]) -> tuple[str, str]:
    first = owners[0]
    if kind == "update":
        return (
            f"each step updates `{first}` one parameter at a time: several kernels for each",
            f"Use an optimizer (`torch.optim.SGD({first}.parameters(), ...)`): it updates all in a few kernels.",
        )
    if kind == "clip":
        return (
            f"each step clips the gradients of `{first}` one parameter at a time: a kernel for each",
            f"Use `torch.nn.utils.clip_grad_value_({first}.parameters(), ...)`: it clips all of them in a few kernels.",
        )
    return (
        f"each step averages `{owners[-1]}` into `{first}` one parameter at a time: several kernels for each",
        "Use `torch.optim.swa_utils.AveragedModel` with `multi_avg_fn=get_ema_multi_avg_fn(...)`, or "
        "`torch._foreach_lerp_` on the two lists: all of them in a few kernels.",
    )


def _owners(over: ast.expr) -> list[str]:
    """The models whose parameters the loop goes over; empty where it goes over something else."""
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "zip":
        found = [owner for value in over.args for owner in _owners(value)]
        return found if len(found) == len(over.args) == 2 else []
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in _ITERATORS:
        return [ast.unparse(over.func.value)]
    return []


def _kind(loop: ast.For, count: int) -> Kind | None:
    names = [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]
    if count == 2:
        return "average" if _averages(loop, names) else None
    parameter = names[-1]
    for node in ast.walk(loop):
        if _updates(node, parameter):
            return "update"
        if _clips(node, parameter):
            return "clip"
    return None


def _updates(node: ast.AST, name: str) -> bool:
    """`p -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`, `p.data = p.data - lr * p.grad`."""
    gradient = f"{name}.grad"
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub | ast.Add):
        return _is_value(node.target, name) and gradient in ast.unparse(node.value)
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        return ast.unparse(target) == f"{name}.data" and gradient in ast.unparse(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
        return _is_value(node.func.value, name) and any(gradient in ast.unparse(value) for value in node.args)
    return False


def _clips(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CLAMPS
        and ast.unparse(node.func.value) in (f"{name}.grad", f"{name}.grad.data")
    )


def _averages(loop: ast.For, names: list[str]) -> bool:
    """`a.data.mul_(d).add_(b.data, alpha=1 - d)`, `a.data.copy_(t * b.data + (1 - t) * a.data)`, either way round."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
            written = _root(node.func)
            values: list[ast.expr] = list(node.args)
            if node.func.attr == "copy_" and not any(isinstance(value, ast.BinOp) for value in values):
                continue  # a plain copy
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            written, values = _root(node.targets[0]), [node.value] if isinstance(node.value, ast.BinOp) else []
        else:
            continue
        read = {item.id for value in values for item in ast.walk(value) if isinstance(item, ast.Name)}
        if written in names and any(name != written and name in read for name in names):
            return True
    return False


def _root(node: ast.expr) -> str:
    """`a` of `a.data.mul_(d).add_`."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _is_value(node: ast.expr, name: str) -> bool:
    return ast.unparse(node) in (name, f"{name}.data")


RULE = Rule("FO604", "loop-over-parameters", "medium", find, needs=("parameters(",))
