"""FO504: `torch.cuda.empty_cache()` or `gc.collect()` each step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.tree import FUNCTIONS

EMPTYING = tuple(f"torch.{device}.empty_cache" for device in ("cuda", "mps", "xpu", "accelerator"))

# Code that measures memory has to begin with an empty cache.
_MEASURES = re.compile(r"reset_peak_memory|max_memory_allocated|max_memory_reserved|benchmark")


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*EMPTYING, "gc.collect"):
        where = _every(module, call)
        if where is None or _is_rare(module, call):
            continue
        name = ast.unparse(call.func)
        if name.endswith("empty_cache"):
            message = f"`{name}()` runs {where}: the memory that it gives back is asked for again by the next one"
            remedy = (
                f"Take `{name}()` away; the cache is reused. Against fragments there is "
                "`PYTORCH_ALLOC_CONF=expandable_segments:True`."
            )
        else:
            message = f"`{name}()` runs {where}: it visits every Python object while the GPU waits"
            remedy = f"Take `{name}()` away; what has no reference is freed at once."
        yield Hit(call, message, remedy)


def _is_rare(module: Module, call: ast.Call) -> bool:
    """Whether the call, or a loop around it, stands under a condition: a mode that saves memory at any price."""
    region = module.region(call)
    around = [loop for loop in module.tree.loops(call) if region is not None and loop is not region.node]
    inside = [loop for loop in around if region is not None and module.tree.within(loop, region.node)]
    return any(module.is_rare(node) for node in (call, *inside))


def _every(module: Module, call: ast.Call) -> str | None:
    """How often the call runs: "every step"; None where it is not known to be often."""
    region, function = module.region(call), module.tree.function(call)
    if function is not None and _MEASURES.search(module.text.of(function)):
        return None
    if region is not None and region.kind == "called" and not _is_called_in_loop(module, region.node):
        return None
    if region is not None:
        return "in every forward pass" if region.kind == "forward" else "every step"
    loops = module.tree.loops(call)
    if loops and any(found.loop is loops[0] for found in module.evaluations.loops):
        return "for every batch"
    return None


def _is_called_in_loop(module: Module, function: ast.stmt) -> bool:
    """Whether a function that is hot as a whole surely runs again and again: it steps, or a loop here calls it."""
    if any(module.tree.within(step, function) for step in module.regions.optimizer_steps):
        return True
    calls = module.functions.calls_of(function) if isinstance(function, FUNCTIONS) else []
    return any(module.region(call) is not None for call in calls)


RULE = Rule("FO504", "cache-emptied-every-step", "medium", find, needs=("empty_cache", "gc.collect", "collect("))
