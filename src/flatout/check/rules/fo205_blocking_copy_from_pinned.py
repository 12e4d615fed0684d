"""FO205: batches from a DataLoader with `pin_memory=True`, copied to the GPU while the host waits."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.check.fixes import add_argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.transfers import Transfer, named, transfers
from flatout.source import Fix


def find(module: Module) -> Iterator[Hit]:
    for statement in transfers(module):
        # A tensor that is pinned by hand is another story.
        waiting = [
            each for each in statement if each.non_blocking is False and each.fact.pinned and not each.fact.is_tensor
        ]
        if not waiting:
            continue
        call = waiting[0].call
        loader = module.loaders.around(call)
        where = f" on line {loader.call.lineno}" if loader is not None else ""
        comes = "comes" if len(waiting) == 1 else "come"
        yield Hit(
            call,
            f"{named(module, waiting)} {comes} pinned from the DataLoader{where}, and "
            f"`{module.text.short(call)}` makes the host wait for the copy all the same",
            "Add `non_blocking=True`: the host goes on while the copy runs.",
            _fix(module, waiting),
        )


def _fix(module: Module, waiting: list[Transfer]) -> Fix | None:
    if any(keyword.arg == "non_blocking" for each in waiting for keyword in each.call.keywords):
        return None
    try:
        edits = tuple(add_argument(module, each.call, "non_blocking=True") for each in waiting)
    except ValueError:
        return None
    return Fix("Add `non_blocking=True`", edits)


RULE = Rule("FO205", "blocking-copy-from-pinned", "medium", find, needs=("pin_memory",))
