"""FO704: a barrier in the training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.ranks import collective, rank_branches
from flatout.check.rule import Hit, Rule

_BARRIERS = frozenset({"barrier", "monitored_barrier", "wait_for_everyone"})


def find(module: Module) -> Iterator[Hit]:
    for call in module.methods(*sorted(_BARRIERS)):
        if collective(module, call) not in _BARRIERS or not runs_every_step(module, call):
            continue
        yield Hit(
            call,
            f"`{ast.unparse(call.func)}()` makes the host wait for its GPU and for every other rank on each step",
            "Take it away: the gradients' own all-reduce keeps the ranks together.",
        )


def runs_every_step(module: Module, call: ast.Call) -> bool:
    """Whether the call surely runs on each step, on all ranks."""
    region = module.region(call)
    if region is None or module.is_rare(call) or any(rank_branches(module, call)):
        return False
    loops = module.tree.loops(call)
    return region.loop is None or (bool(loops) and loops[0] is region.loop)


RULE = Rule("FO704", "barrier-every-step", "medium", find, needs=("barrier", "wait_for_everyone"))
