"""FO707: an asynchronous collective whose handle is dropped: its tensor is used before it is there."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from flatout.check.devices import keyword
from flatout.check.module import Module
from flatout.check.ranks import GROUP_POSITIONS
from flatout.check.rule import Hit, Rule

_SENDS = ("torch.distributed.isend", "torch.distributed.irecv", "torch.distributed.batch_isend_irecv")


def find(module: Module) -> Iterator[Hit]:
    names = [f"torch.distributed.{collective}" for collective in GROUP_POSITIONS]
    asynchronous = [call for call in module.calls(*names) if _is_asynchronous(module, call)]
    reads: defaultdict[str, list[ast.Name]] = defaultdict(list)
    for name in module.tree.nodes(ast.Name):
        if isinstance(name.ctx, ast.Load):
            reads[name.id].append(name)
    for call in (*asynchronous, *module.calls(*_SENDS)):
        handle = _handle(module, call, reads)
        if handle is None or _waits_otherwise(module, call):
            continue
        where = f"`{handle}` is never waited for" if handle else "nothing waits for it"
        yield Hit(
            call,
            f"`{module.text.short(call)}` has only begun when it returns, and {where}: what comes after reads "
            "unfinished data",
            "Keep the handle and call `.wait()` on it before the tensor is used; or take `async_op=True` away."
            if keyword(call, "async_op")
            else "Keep the handle and call `.wait()` on it before the tensor is used or changed.",
        )


def _is_asynchronous(module: Module, call: ast.Call) -> bool:
    value = keyword(call, "async_op")
    return value is not None and module.constant(value) is True


def _handle(module: Module, call: ast.Call, reads: dict[str, list[ast.Name]]) -> str | None:
    """The name that keeps the handle and is never read, "" where none keeps it; None where something may wait."""
    above = module.tree.parent(call)
    if isinstance(above, ast.Expr):
        return ""
    if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name):
        name = above.targets[0]
        found = module.scopes.lookup(name.id, name)
        used = any(module.scopes.lookup(other.id, other) == found for other in reads.get(name.id, ()))
        return None if used or not isinstance(module.tree.function(call), ast.FunctionDef) else name.id
    return None


def _waits_otherwise(module: Module, call: ast.Call) -> bool:
    """Whether the function, or the file where it is in none, waits for the whole device."""
    function = module.tree.function(call)
    text = module.text.of(function) if function is not None else module.text.text
    return "synchronize" in text


RULE = Rule("FO707", "handle-never-waited", "high", find, needs=("async_op", "isend", "irecv"), in_tests=True)
