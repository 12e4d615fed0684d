"""FO103: torch.cuda.synchronize() on every step, where nothing is timed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS

_TIMING_WORDS = ("time", "Event", "profile", "perf_counter", "clock", "elapsed", "bench")


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls("torch.cuda.synchronize"):
        region = module.region(call)
        if region is None or module.is_rare(call) or _is_timing(module, call):
            continue
        yield Hit(
            call,
            f"`{module.text.short(call)}` stops the host on every step until the GPU has nothing left to do",
            "Take it away: PyTorch keeps the order of operations, and a copy to the host waits for what it needs.",
        )


def _is_timing(module: Module, call: ast.Call) -> bool:
    """Whether the function around it measures time."""
    around = next((node for node in module.tree.ancestors(call) if isinstance(node, FUNCTIONS)), None)
    text = module.text.of(around) if around is not None else module.text.text
    return any(word in text for word in _TIMING_WORDS)


RULE = Rule("FO103", "synchronize-every-step", "medium", find, needs=("synchronize",))
