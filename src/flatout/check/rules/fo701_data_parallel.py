"""FO701: nn.DataParallel, which PyTorch itself advises against."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.torch_api import DATA_PARALLEL


def find(module: Module) -> Iterator[Hit]:
    for call in module.calls(DATA_PARALLEL):
        yield Hit(
            call,
            f"`{module.text.short(call)}` copies the model to every GPU and gathers the outputs on one, on every step, "
            "with one Python thread a GPU",
            "Use `torch.nn.parallel.DistributedDataParallel`, started by `torchrun`: one process a GPU.",
        )


RULE = Rule("FO701", "data-parallel", "medium", find, needs=("DataParallel",))
