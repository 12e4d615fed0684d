"""Where the values of a tensor on the CPU are first read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from flatout.check.torch_api import LIKE, NO_TENSOR_FUNCTIONS, TENSOR_METHODS
from flatout.check.tree import COMPREHENSIONS
from flatout.check.words import words

if TYPE_CHECKING:
    from flatout.check.module import Module

# Methods that give another view of the same memory.
_VIEWS = frozenset(
    words("view reshape squeeze unsqueeze detach t transpose permute expand flatten view_as contiguous narrow values")
)
_READING = (
    (TENSOR_METHODS | {"item", "tolist", "numpy", "float", "double", "int", "bool"}) - _VIEWS - {"dim", "size", "numel"}
)
_READING_BUILTINS = frozenset({"float", "int", "bool", "print", "str", "repr", "round", "sum", "max", "min", "sorted"})
_READ_NOTHING = (NO_TENSOR_FUNCTIONS | LIKE) - {"torch.save", "torch.equal", "torch.allclose"}
_LIST_METHODS = ("append", "extend")


def first_read(module: Module, copied: ast.expr) -> ast.expr | None:
    """The first expression behind `copied` that surely reads its values, in the same function; None if there is none.

    `copied` is followed through the variable that it is assigned to, and through a list that it is appended to.
    """
    if isinstance(copied, ast.Name):
        return _read_of_name(module, copied, module.tree.statement(copied))
    here, above = copied, module.tree.parent(copied)
    read = _read_by(module, copied)
    if read is not None:
        return read
    while isinstance(above, (*COMPREHENSIONS, ast.Dict, ast.List, ast.Tuple)):
        here, above = above, module.tree.parent(above)
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        target = above.targets[0]
        if isinstance(target, ast.Subscript):  # results[name] = ...
            target = target.value
        if isinstance(target, ast.Name):
            return _read_of_name(module, target, above)
    if isinstance(above, ast.Call) and here in above.args and isinstance(above.func, ast.Attribute):
        owner = above.func.value
        if above.func.attr in _LIST_METHODS and isinstance(owner, ast.Name):
            return _read_of_name(module, owner, module.tree.statement(above))
    return None


def _read_of_name(module: Module, name: ast.Name, statement: ast.stmt) -> ast.expr | None:
    """The first read of a variable behind `statement`, until it is given another value."""
    scope = module.tree.function(statement) or module.tree.root
    end = statement.end_lineno or statement.lineno
    for use in module.scopes.mentions(name.id, end):
        if (module.tree.function(use) or module.tree.root) is not scope:
            continue
        if isinstance(use.ctx, ast.Store):
            return None
        read = _read_by(module, use)
        if read is not None:
            return read
    return None


def _read_by(module: Module, node: ast.expr) -> ast.expr | None:
    """The expression around `node` that reads it."""
    here: ast.expr = node
    for _ in range(8):
        above = module.tree.parent(here)
        if isinstance(above, ast.Attribute):
            call = module.tree.parent(above)
            if not isinstance(call, ast.Call) or call.func is not above:
                return None
            if above.attr in _READING:
                return call
            if above.attr not in _VIEWS:
                return None
            here = call
        elif isinstance(above, ast.List | ast.Tuple) or _is_part(above, here):
            here = above  # type: ignore[assignment]
        elif isinstance(above, ast.Call) and here in above.args:
            return above if _reads_arguments(module, above.func) else None
        elif isinstance(above, ast.BinOp | ast.Compare | ast.UnaryOp):
            return above if not isinstance(above, ast.Compare) or _compares_values(above) else None
        elif isinstance(above, ast.FormattedValue) or getattr(above, "test", None) is here:  # if, while, assert
            return here
        elif isinstance(above, ast.comprehension) and here is above.iter and isinstance(above.target, ast.Name):
            return _read_in_comprehension(module, above)
        else:
            return None
    return None


def _is_part(above: ast.AST | None, here: ast.expr) -> bool:
    return isinstance(above, ast.Subscript) and here is above.value and isinstance(above.ctx, ast.Load)


def _read_in_comprehension(module: Module, generator: ast.comprehension) -> ast.expr | None:
    whole = module.tree.parent(generator)
    assert whole is not None
    assert isinstance(generator.target, ast.Name)
    for use in ast.walk(whole):
        if isinstance(use, ast.Name) and use.id == generator.target.id and isinstance(use.ctx, ast.Load):
            read = _read_by(module, use)
            if read is not None:
                return read
    return None


def _reads_arguments(module: Module, func: ast.expr) -> bool:
    name = module.qualified(func)
    if name is None:
        return isinstance(func, ast.Name) and func.id in _READING_BUILTINS
    return name.startswith(("numpy.", "torch.nn.functional.")) or (
        name.startswith("torch.") and name.count(".") == 1 and name not in _READ_NOTHING
    )


def _compares_values(node: ast.Compare) -> bool:
    return not any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
