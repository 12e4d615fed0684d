"""FO203: `non_blocking=True` on memory that is not pinned: the copy does not run beside the GPU's work."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.fixes import add_argument
from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import FROM_DATA
from flatout.check.transfers import named, transfers
from flatout.source import Fix


def find(module: Module) -> Iterator[Hit]:
    told: set[ast.Call] = set()  # a loader has one message, at the first of its copies
    for statement in transfers(module):
        useless = [
            each
            for each in statement
            if each.non_blocking and each.fact.pinned is False and not _is_written_out(module, each.call)
        ]
        if not useless:
            continue
        call = useless[0].call
        loader = None if useless[0].fact.is_tensor else module.loaders.around(call)
        if loader is not None:
            if loader.call in told:
                continue
            told.add(loader.call)
        verb = "is" if len(useless) == 1 else "are"
        where = "" if loader is None else f" (the DataLoader on line {loader.call.lineno} has no `pin_memory=True`)"
        yield Hit(
            call,
            f"{named(module, useless)} {verb} not in pinned memory{where}: with `non_blocking=True`, too, the host "
            "waits while the copy is staged",
            "Copy from pinned memory (`pin_memory=True` where the tensor is made), or drop `non_blocking=True`."
            if loader is None
            else f"Give the DataLoader on line {loader.call.lineno} `pin_memory=True`.",
            None if loader is None else _fix(module, loader),
        )


def _is_written_out(module: Module, call: ast.Call) -> bool:
    """`torch.tensor([1, 2]).to(...)`: a handful of numbers, for which nothing is worth doing."""
    owner = module.origin(call.func.value) if isinstance(call.func, ast.Attribute) else call
    return isinstance(owner, ast.Call) and module.qualified(owner.func) in FROM_DATA


def _fix(module: Module, loader: Loader) -> Fix | None:
    if not loader.lacks("pin_memory"):
        return None
    try:
        edit = add_argument(module, loader.call, "pin_memory=True")
    except ValueError:
        return None
    return Fix("Give the DataLoader `pin_memory=True`", (edit,), "unsafe")  # it takes memory that cannot be swapped


RULE = Rule("FO203", "copy-from-pageable-memory", "low", find, needs=("non_blocking",))
