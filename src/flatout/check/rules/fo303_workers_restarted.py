"""FO303: worker processes that are started anew for every epoch."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.check.fixes import add_argument
from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.source import Fix


def find(module: Module) -> Iterator[Hit]:
    for loader in module.loaders.all:
        if not loader.workers or not loader.lacks("persistent_workers"):
            continue
        # The same object must live from epoch to epoch.
        loops = [loop for loop in module.loaders.loops_over(loader) if module.loaders.runs_again(loop)]
        if not loops or module.loaders.runs_again(loader.call):
            continue
        several = "worker process is" if loader.workers == 1 else f"{loader.workers} worker processes are"
        yield Hit(
            loader.call,
            f"the {several} stopped and started again each time the loop on line {loops[0].lineno} begins",
            "Add `persistent_workers=True`: they then live as long as the loader.",
            _fix(module, loader),
        )


def _fix(module: Module, loader: Loader) -> Fix | None:
    try:
        edit = add_argument(module, loader.call, "persistent_workers=True")
    except ValueError:
        return None
    # A copy of the dataset in a worker does not see what the program changes in its own between epochs.
    return Fix("Add `persistent_workers=True`", (edit,), "unsafe")


RULE = Rule("FO303", "workers-restarted", "low", find, needs=("num_workers",))
