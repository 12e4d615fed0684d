"""Which device an argument names, and what `.to(...)` really asks for: a device, a dtype, or both."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.fact import Fact

if TYPE_CHECKING:
    from flatout.check.facts import Facts


class Move(NamedTuple):
    """What a `.to`, `.cuda`, `.cpu`, `.half`... call changes. An expression that could be either is in `unclear`."""

    device: ast.expr | str | None = None
    dtype: ast.expr | str | None = None
    like: ast.expr | None = None
    unclear: ast.expr | None = None
    non_blocking: ast.expr | None = None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of keyword `name`."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument at `position` (from 0), or given by `name`; None behind a `*`."""
    plain = call.args[: position + 1]
    if len(plain) > position and not any(isinstance(item, ast.Starred) for item in plain):
        return plain[position]
    return keyword(call, name)


def device_of(facts: Facts, node: ast.expr) -> str | None:
    """The device type that `node` names: "cuda", "cpu"..., or None."""
    fact = facts.of(node)
    if fact.kind in ("device", "str"):
        return fact.device
    if fact.kind == "int":
        return "cuda"  # torch takes a bare number as the accelerator's index
    return None


def is_device(fact: Fact) -> bool:
    """Whether a value is surely a device."""
    return fact.kind == "device" or (fact.kind == "str" and fact.device is not None) or fact.kind == "int"


def read_move(facts: Facts, call: ast.Call) -> Move | None:
    """What the method call moves or casts; None for another method."""
    if not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    if name in ("cuda", "cpu"):
        position = 1 if name == "cuda" else 0
        return Move(device=name, non_blocking=argument(call, position, "non_blocking"))
    if name != "to":
        return None
    device, dtype, unclear = keyword(call, "device"), keyword(call, "dtype"), None
    like = keyword(call, "other")
    non_blocking = keyword(call, "non_blocking")
    for index, value in enumerate(call.args):
        fact = facts.of(value)
        if index == 0 and fact.is_tensor:
            like = value
        elif is_device(fact) or (index == 0 and _sounds_like_device(value)):
            device = value
        elif fact.kind == "dtype":
            dtype = value
        elif fact.kind == "bool":
            non_blocking = non_blocking or value
        else:
            unclear = unclear or value
    return Move(device, dtype, like, unclear, non_blocking)


def devices_in_call(facts: Facts, call: ast.Call) -> str | None:
    """The device type that a method call moves to; None where it moves nowhere known."""
    move = read_move(facts, call)
    if move is None:
        return None
    if move.like is not None:
        return facts.of(move.like).device
    if isinstance(move.device, str):
        return "cuda" if move.device == "cuda" else "cpu"
    return device_of(facts, move.device) if move.device is not None else None


def _sounds_like_device(node: ast.expr) -> bool:
    """`x.to(device)`, `x.to(args.device)`, `x.to(y.device)`: nobody names a dtype so."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lower().rstrip("_0123456789").endswith(("device", "dev", "gpu", "cuda", "rank"))


def asks_for_gpu(facts: Facts, node: ast.expr) -> bool:
    """Whether `node` is true just where there is a GPU: `torch.cuda.is_available()`, `device.type == "cuda"`."""
    origin = facts.module.origin(node)
    if isinstance(origin, ast.Call):
        return facts.module.qualified(origin.func) in (
            "torch.cuda.is_available",
            "torch.accelerator.is_available",
        )
    if isinstance(origin, ast.BoolOp) and isinstance(origin.op, ast.And):  # `not args.no_cuda and is_available()`
        return any(asks_for_gpu(facts, value) for value in origin.values)
    if isinstance(origin, ast.Compare) and len(origin.ops) == 1:
        left, right = origin.left, facts.of(origin.comparators[0]).constant
        if isinstance(left, ast.Attribute) and left.attr == "type":
            left = left.value
        if not facts.of(left).on_gpu:
            return False
        is_equal = isinstance(origin.ops[0], ast.Eq)
        return right == "cuda" if is_equal else isinstance(origin.ops[0], ast.NotEq) and right == "cpu"
    name = origin.id if isinstance(origin, ast.Name) else origin.attr if isinstance(origin, ast.Attribute) else ""
    return name.lower() in ("use_cuda", "cuda", "use_gpu", "gpu", "use_accel", "cuda_available")
