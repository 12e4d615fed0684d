"""FO210: a fixed GPU number in a program of several processes: all of them use that one GPU."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument, keyword, read_move
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import DISTRIBUTED_DATA_PARALLEL, FACTORIES

_NUMBERED = re.compile(r"cuda:(\d+)")


def find(module: Module) -> Iterator[Hit]:
    if not _has_several_processes(module):
        return
    for call, given in _places(module):
        number = _number(given)
        if number is None or _is_for_one_process(module, call):
            continue
        yield Hit(
            call,
            f"`{module.text.short(call)}` is GPU {number} in every process, and this program runs one process a GPU",
            'Use the process\'s own: `int(os.environ["LOCAL_RANK"])` under `torchrun`.',
        )


def _has_several_processes(module: Module) -> bool:
    groups = module.calls("torch.distributed.init_process_group")
    if any(module.constant(given) == "fake" for call in groups if (given := argument(call, 0, "backend")) is not None):
        return False  # one process that plays all ranks
    return bool(groups or module.calls(DISTRIBUTED_DATA_PARALLEL))


def _places(module: Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls that take a device, with what they are given."""
    for call in module.methods("to", "cuda"):
        move = read_move(module.facts, call)
        if call.func.attr == "cuda" and call.args:  # type: ignore[attr-defined]
            yield call, call.args[0]
        elif move is not None and isinstance(move.device, ast.expr):
            yield call, move.device
    for call in module.calls("torch.cuda.set_device", "torch.device"):
        given = argument(call, 0, "device")
        if given is not None:
            yield call, given
    for call in module.calls("torch.load", *sorted(FACTORIES)):
        given = keyword(call, "map_location") or keyword(call, "device")
        if given is not None:
            yield call, given
    for call in module.calls(DISTRIBUTED_DATA_PARALLEL):
        ids = argument(call, 1, "device_ids")
        if isinstance(ids, ast.List) and len(ids.elts) == 1:
            yield call, ids.elts[0]


def _number(given: ast.expr) -> int | None:
    """The number that is written there: 0, "cuda:0"."""
    if not isinstance(given, ast.Constant) or isinstance(given.value, bool):
        return None
    if isinstance(given.value, int):
        return given.value
    match = _NUMBERED.fullmatch(given.value) if isinstance(given.value, str) else None
    return int(match[1]) if match else None


def _is_for_one_process(module: Module, call: ast.Call) -> bool:
    """Whether a condition chooses the processes, or the way that the program runs."""
    function = module.tree.function(call)
    if any(isinstance(above, ast.If | ast.IfExp | ast.ExceptHandler) for above in module.tree.ancestors(call)):
        return True
    # Only where the processes surely run: where they are joined, or the model is wrapped, in this very function.
    joins = module.calls("torch.distributed.init_process_group", DISTRIBUTED_DATA_PARALLEL)
    places = {module.tree.function(join) for join in joins}
    here = {function} | {
        target
        for node in (ast.walk(function) if function is not None else ())
        if isinstance(node, ast.Call) and (target := module.functions.definition(node.func)) is not None
    }
    return None not in places and not places & here


RULE = Rule("FO210", "every-process-on-one-gpu", "high", find, needs=("cuda", "device_ids"))
