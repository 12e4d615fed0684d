"""FO710: a checkpoint that every rank loads onto the GPU that it was saved from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.fixes import add_argument
from flatout.check.module import Module
from flatout.check.ranks import rank_branches
from flatout.check.rule import Hit, Rule
from flatout.check.tree import Function
from flatout.source import Fix

MAP_LOCATION_POSITION = 1  # torch.load(f, map_location, pickle_module, *, weights_only, mmap)

# Checkpoints of other libraries that take care of it, and settings that move all loads.
_CARED_FOR = re.compile(r"set_default_load|accelerat|lightning|deepspeed", re.I)


def find(module: Module) -> Iterator[Hit]:
    if not module.calls("torch.distributed.init_process_group") or _CARED_FOR.search(module.text.text):
        return
    given = given_to_load_state_dict(module)
    for call in module.calls("torch.load"):
        if argument(call, MAP_LOCATION_POSITION, "map_location") is not None or not call.args:
            continue
        if any(item.arg is None for item in call.keywords) or any(rank_branches(module, call)):
            continue
        if not feeds_load_state_dict(module, call, given) or _is_of_scheduler(module, call):
            continue
        try:
            fix = Fix('Add `map_location="cpu"`', (add_argument(module, call, 'map_location="cpu"'),), "unsafe")
        except ValueError:
            fix = None
        yield Hit(
            call,
            f"every rank runs `{module.text.short(call)}`, which puts its tensors on the GPU that they were saved "
            "from: the first one holds a copy for each rank",
            'Say `map_location="cpu"`; `load_state_dict` copies to where the parameters are.',
            fix,
        )


Places = set[tuple[Function | None, str]]


def given_to_load_state_dict(module: Module) -> Places:
    """The variables, with their functions, that stand in an argument of `load_state_dict`."""
    return {
        (module.tree.function(load), ast.unparse(node))
        for load in module.methods("load_state_dict")
        for value in load.args
        for node in ast.walk(value)
        if isinstance(node, ast.Name | ast.Attribute)
    }


def _is_of_scheduler(module: Module, call: ast.Call) -> bool:
    """Whether it is a learning-rate schedule's state, which is numbers: `scheduler.load_state_dict(torch.load(f))`."""
    above = module.tree.parent(call)
    func = above.func if isinstance(above, ast.Call) else None
    if not isinstance(func, ast.Attribute):
        return False
    return module.fact(func.value).kind == "Scheduler" or "sched" in ast.unparse(func.value).lower()


def feeds_load_state_dict(module: Module, call: ast.Call, given: Places) -> bool:
    """Whether what is loaded, or a part of it, surely goes to `load_state_dict`."""
    above: ast.AST | None = module.tree.parent(call)
    while isinstance(above, ast.Subscript | ast.Attribute):
        above = module.tree.parent(above)
    if isinstance(above, ast.Call):
        return isinstance(above.func, ast.Attribute) and above.func.attr == "load_state_dict"
    if not isinstance(above, ast.Assign) or not isinstance(above.targets[0], ast.Name | ast.Attribute):
        return False
    return (module.tree.function(call), ast.unparse(above.targets[0])) in given


RULE = Rule("FO710", "load-on-every-rank", "medium", find, needs=("init_process_group",))
