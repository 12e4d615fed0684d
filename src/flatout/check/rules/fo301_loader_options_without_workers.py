"""FO301: options of a DataLoader that need worker processes, on one that has none: PyTorch raises ValueError."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import LOADERS

WORKERS_POSITION = 5  # DataLoader(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, ...)


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(*sorted(LOADERS)):
        if any(item.arg is None for item in call.keywords):
            continue  # **options may name the workers
        workers = argument(call, WORKERS_POSITION, "num_workers")
        if workers is not None and module.constant(workers) != 0:
            continue
        useless = [item for item in call.keywords if _needs_workers(module, item)]
        if useless:
            names = " and ".join(f"`{item.arg}`" for item in useless)
            yield Hit(
                useless[0],
                f"{names} need{'s' * (len(useless) == 1)} worker processes, and this DataLoader has `num_workers=0`: "
                "it raises ValueError",
                f"Give `num_workers` a number above 0, or take {names} away.",
            )


def _needs_workers(module: Module, item: ast.keyword) -> bool:
    if item.arg == "persistent_workers":
        return module.constant(item.value) is True
    if item.arg == "prefetch_factor":
        return isinstance(module.constant(item.value), int)
    return False


RULE = Rule("FO301", "loader-options-without-workers", "high", find, needs=("DataLoader",), in_tests=True)
