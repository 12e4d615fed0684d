"""FO511: a handler of "out of memory" tries again while the exception still holds what filled the memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS

OOM = frozenset({"torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"})


def find(module: Module) -> Iterator[Hit]:
    for handler in module.tree.nodes(ast.ExceptHandler):
        attempt = module.tree.parent(handler)
        if not isinstance(attempt, ast.Try) or not _catches_oom(module, handler):
            continue
        tried = {ast.unparse(call.func): call for call in _work(module, attempt.body)}
        again = next((call for call in _work(module, handler.body) if ast.unparse(call.func) in tried), None)
        if again is not None:
            name = ast.unparse(again.func)
            yield Hit(
                again,
                f"`{name}` is tried again inside the `except`: the exception's traceback still holds the tensors of "
                "the "
                f"call that ran out of memory (line {tried[name].lineno})",
                "Set a flag in the handler and try again after it: the exception is gone there.",
                evidence={"tried_line": tried[name].lineno},
            )


def _catches_oom(module: Module, handler: ast.ExceptHandler) -> bool:
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    names = [module.qualified(item) or ast.unparse(item) for item in types]
    if any(name in OOM for name in names):
        return True
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and "out of memory" in node.value.lower()
        for item in handler.body
        for node in ast.walk(item)
        if not isinstance(item, ast.Expr)
    )


def _work(module: Module, body: list[ast.stmt]) -> list[ast.Call]:
    """The calls that compute on the GPU: of a model, or of a function of this module that calls one."""
    found = []
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (module.evaluations.runs_model(node) or _runs_one(module, node)):
                found.append(node)
    return found


def _runs_one(module: Module, call: ast.Call) -> bool:
    target = module.functions.definition(call.func)
    return isinstance(target, FUNCTIONS) and any(
        isinstance(node, ast.Call)
        and (
            module.evaluations.runs_model(node)
            or (isinstance(node.func, ast.Attribute) and node.func.attr == "backward")
        )
        for node in ast.walk(target)
    )


RULE = Rule("FO511", "oom-handler-keeps-traceback", "medium", find, needs=("out of memory", "OutOfMemoryError"))
