"""FO103: torch.cuda.synchronize() on every step, where nothing is timed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule


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
    """Whether the function around it measures time: it reads a clock, or an event."""
    around = module.tree.function(call) or module.tree.root
    for node in ast.walk(around):
        if isinstance(node, ast.Attribute) and node.attr in ("elapsed_time", "perf_counter", "monotonic", "record"):
            return True
        if isinstance(node, ast.Call) and (module.qualified(node.func) or "").startswith(("time.", "timeit.")):
            return True
    return False


RULE = Rule("FO103", "synchronize-every-step", "medium", find, needs=("synchronize",))
