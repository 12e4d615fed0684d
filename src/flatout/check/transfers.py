"""Copies from the CPU to the GPU, by statement."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from flatout.check.devices import read_move
from flatout.check.fact import Fact

if TYPE_CHECKING:
    from flatout.check.module import Module


class Transfer(NamedTuple):
    """A call that copies to the GPU, and what is known of what it copies. `non_blocking`: None where not known."""

    call: ast.Call
    copied: ast.expr
    fact: Fact
    non_blocking: bool | None


def transfers(module: Module) -> list[list[Transfer]]:
    """The copies from the CPU to the GPU, those of one statement together: `x, y = x.cuda(), y.cuda()`.

    Left out are copies that cast, too: the cast comes first, on the CPU, and gives memory of its own.
    """
    found: dict[ast.stmt, list[Transfer]] = {}
    for call in module.methods("to", "cuda"):
        assert isinstance(call.func, ast.Attribute)
        copied = call.func.value
        fact = module.fact(copied)
        if not fact.on_cpu or fact.kind not in ("Tensor", None):
            continue
        move = read_move(module.facts, call)
        if (
            move is None
            or move.dtype is not None
            or move.unclear is not None
            or any(k.arg is None for k in call.keywords)
        ):
            continue
        if isinstance(move.device, str):
            to_gpu = move.device == "cuda"
        else:
            to_gpu = move.device is not None and module.facts.device(move.device) not in ("cpu", "meta", "mps")
        if to_gpu:
            flag = False if move.non_blocking is None else module.constant(move.non_blocking)
            non_blocking = flag if isinstance(flag, bool) else None
            found.setdefault(module.tree.statement(call), []).append(Transfer(call, copied, fact, non_blocking))
    return list(found.values())


def named(module: Module, several: list[Transfer]) -> str:
    """What they copy, for a message: "`x` and `y`"."""
    names = [f"`{module.text.short(transfer.copied, 40)}`" for transfer in several]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
