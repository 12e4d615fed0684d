"""FO305: a DistributedSampler that is never told the epoch: each epoch sees the data in the same order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

_FOR_EVALUATION = re.compile(r"val|test|eval|dev|infer|pred", re.I)


def find(module: Module) -> Iterator[Hit]:
    if "set_epoch" in module.text.text:
        return
    for call in module.calls("torch.utils.data.DistributedSampler"):
        shuffle = argument(call, 3, "shuffle")  # DistributedSampler(dataset, num_replicas, rank, shuffle, ...)
        if shuffle is not None and module.constant(shuffle) is not True:
            continue
        loader = _loader_of(module, call)
        loops = module.loaders.loops_over(loader) if loader is not None else []
        if loops:
            if not any(loop in module.regions.training_loops and module.loaders.runs_again(loop) for loop in loops):
                continue
        elif _sounds_like_evaluation(module, call) or not _has_epochs(module):
            continue
        yield Hit(
            _epochs(module, loops) or call,
            f"`{_name(module, call)}` is never told the epoch: `DistributedSampler` shuffles every epoch into the same "
            "order",
            f"Call `{_name(module, call)}.set_epoch(epoch)` at the start of each epoch.",
        )


def _epochs(module: Module, loops: list[ast.For]) -> ast.expr | None:
    """What the loop over the epochs goes over: there the call is missing."""
    around = [outer for loop in loops for outer in module.tree.loops(loop) if isinstance(outer, ast.For)]
    return around[0].iter if around else None


def _name(module: Module, call: ast.Call) -> str:
    above = module.tree.parent(call)
    while isinstance(above, ast.IfExp):
        above = module.tree.parent(above)
    if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name | ast.Attribute):
        return module.text.of(above.targets[0])
    return "loader.sampler" if isinstance(above, ast.keyword) else module.text.short(call.func)


def _loader_of(module: Module, sampler: ast.Call) -> Loader | None:
    """The loader that is given the sampler."""
    for loader in module.loaders.all:
        given = loader.given("sampler")
        if given is not None and any(part is sampler for part in ast.walk(module.origin(given))):
            return loader
    return None


def _sounds_like_evaluation(module: Module, call: ast.Call) -> bool:
    statement = module.tree.statement(call)
    first = call.args[0] if call.args else None
    texts = [module.text.of(first) if first is not None else ""]
    if isinstance(statement, ast.Assign):
        texts.append(module.text.of(statement.targets[0]))
    return any(_FOR_EVALUATION.search(text) for text in texts)


def _has_epochs(module: Module) -> bool:
    """Whether the module has a training loop that is run once an epoch."""
    return any(module.loaders.runs_again(loop) for loop in module.regions.training_loops)


RULE = Rule("FO305", "sampler-never-set-epoch", "high", find, needs=("DistributedSampler",))
