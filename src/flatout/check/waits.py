"""Expressions that make the host wait until the GPU has computed a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.devices import devices_in_call, read_move

if TYPE_CHECKING:
    from flatout.check.module import Module

READING_METHODS = ("item", "tolist", "numpy")
COPYING_METHODS = ("cpu", "to")
READING_BUILTINS = frozenset({"float", "int", "bool", "print", "str", "repr", "round", "format"})
_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "write"})


class Wait(NamedTuple):
    """A read of a GPU value: the expression that reads, and the value that is read."""

    node: ast.expr
    value: ast.expr


def waits(module: Module) -> Iterator[Wait]:
    """Every expression of the module that surely reads a tensor on the GPU."""
    for call in module.methods(*READING_METHODS):
        assert isinstance(call.func, ast.Attribute)
        if _on_gpu(module, call.func.value):
            yield Wait(call, call.func.value)
    for call in module.methods(*COPYING_METHODS):
        assert isinstance(call.func, ast.Attribute)
        if _copies_to_host(module, call) and _on_gpu(module, call.func.value):
            yield Wait(call, call.func.value)
    for call in module.tree.nodes(ast.Call):
        for value in _read_by_call(module, call):
            if _on_gpu(module, value):
                yield Wait(call, value)
    for text in module.tree.nodes(ast.FormattedValue):
        if _on_gpu(module, text.value):
            yield Wait(text.value, text.value)
    for test in _tests(module):
        if _on_gpu(module, test):
            yield Wait(test, test)


def _on_gpu(module: Module, node: ast.expr) -> bool:
    fact = module.fact(node)
    return fact.is_tensor and fact.on_gpu


def _copies_to_host(module: Module, call: ast.Call) -> bool:
    move = read_move(module.facts, call)
    if move is None or devices_in_call(module.facts, call) != "cpu":
        return False
    return move.non_blocking is None or module.constant(move.non_blocking) is not True


def _read_by_call(module: Module, call: ast.Call) -> list[ast.expr]:
    func = call.func
    if isinstance(func, ast.Name) and func.id in READING_BUILTINS and module.scopes.lookup(func.id, func) is None:
        return call.args
    if isinstance(func, ast.Attribute) and func.attr in _LOGGING and _is_logger(func.value):
        return call.args
    return []


def _is_logger(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lower().rstrip("_") in ("logging", "logger", "log", "tqdm")


def _tests(module: Module) -> Iterator[ast.expr]:
    holders: list[ast.If | ast.While | ast.IfExp | ast.Assert] = [
        *module.tree.nodes(ast.If),
        *module.tree.nodes(ast.While),
        *module.tree.nodes(ast.IfExp),
        *module.tree.nodes(ast.Assert),
    ]
    for holder in holders:
        yield from _truths(holder.test)


def _truths(test: ast.expr) -> Iterator[ast.expr]:
    """The expressions whose truth `test` asks for."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _truths(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truths(test.operand)
    else:
        yield test
