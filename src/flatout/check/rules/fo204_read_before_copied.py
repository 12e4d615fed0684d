"""FO204: a `non_blocking=True` copy to the CPU whose result is read before anything waits for it: wrong numbers."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from flatout.check.devices import argument, devices_in_call, read_move
from flatout.check.module import Module
from flatout.check.reads import first_read
from flatout.check.rule import Hit, Rule


def find(module: Module) -> Iterator[Hit]:
    calls = sorted(module.tree.nodes(ast.Call), key=_line)
    for call in module.methods("to", "cpu", "copy_"):
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr == "copy_":
            copied = call.func.value if _fills_pinned(module, call) else None
        else:
            copied = call if _copies_to_host(module, call) else None
        if copied is None:
            continue
        if call.func.attr == "cpu":
            if module.fact(call.func.value).is_gpu_tensor:
                yield _no_such_argument(module, call)
            continue
        read = first_read(module, copied)
        if read is None or _is_waited_for(module, calls, call, read):
            continue
        yield Hit(
            call,
            f"`{module.text.short(read)}` reads the result of this copy, and nothing has waited for it: "
            f"`non_blocking=True` returns before the values are there{_place(call, read)}",
            "Drop `non_blocking=True`, or call `torch.cuda.synchronize()` (or `event.synchronize()`) before the read.",
        )


def _line(call: ast.Call) -> int:
    return call.lineno


def _place(call: ast.Call, read: ast.expr) -> str:
    return "" if read.lineno == call.lineno else f" (read on line {read.lineno})"


def _copies_to_host(module: Module, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    move = read_move(module.facts, call)
    if move is None or move.non_blocking is None or module.constant(move.non_blocking) is not True:
        return False
    return devices_in_call(module.facts, call) == "cpu" and not module.fact(call.func.value).on_cpu


def _fills_pinned(module: Module, call: ast.Call) -> bool:
    """`host.copy_(x, non_blocking=True)` into pinned memory of the CPU."""
    assert isinstance(call.func, ast.Attribute)
    flag = argument(call, 1, "non_blocking")
    if flag is None or module.constant(flag) is not True:
        return False
    host = module.fact(call.func.value)
    return host.on_cpu and host.pinned is True and not (call.args and module.fact(call.args[0]).on_cpu)


def _copies_and_waits(module: Module, call: ast.Call) -> bool:
    """A copy to the CPU that is not `non_blocking`: it waits for what was queued before it, other copies too."""
    move = read_move(module.facts, call)
    if move is None or devices_in_call(module.facts, call) != "cpu":
        return False
    return move.non_blocking is None or module.constant(move.non_blocking) is not True


def _is_waited_for(module: Module, calls: list[ast.Call], call: ast.Call, read: ast.expr) -> bool:
    """Whether anything between the copy and the read may wait for the GPU; `calls` is sorted by line."""
    after, before = (call.end_lineno or 0, call.end_col_offset or 0), (read.lineno, read.col_offset)
    for other in islice(calls, bisect_left(calls, call.lineno, key=_line), None):
        if other.lineno > read.lineno:
            break
        if not after <= (other.lineno, other.col_offset) < before:
            continue
        if _may_wait(other.func) or _copies_and_waits(module, other):
            return True
    return any(
        after <= (wait.node.lineno, wait.node.col_offset) < before and not module.tree.within(wait.node, read)
        for wait in module.waits
    )


def _may_wait(func: ast.expr) -> bool:
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    return any(part in name.lower() for part in ("sync", "wait", "barrier", "join", "query"))


def _no_such_argument(module: Module, call: ast.Call) -> Hit:
    return Hit(
        call,
        f"`{module.text.short(call)}`: a tensor's `cpu()` takes no `non_blocking`, it raises TypeError",
        'Call `.cpu()`, or `.to("cpu", non_blocking=True)` and wait for it before the read.',
    )


RULE = Rule("FO204", "read-before-copied", "high", find, needs=("non_blocking",), in_tests=True)
