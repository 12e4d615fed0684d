from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
def train(model, loader, optimizer):
    for x in loader:
        {clear}
        model(x).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("call", ["optimizer.zero_grad(set_to_none=False)", "model.zero_grad(False)"])
def test_found(call: str) -> None:
    (hit,) = hits("FO508", LOOP.format(clear=call))
    assert hit.node.lineno == 3
    assert hit.message.startswith(f"`{call}` writes zeros")


@pytest.mark.parametrize(
    "source",
    [
        LOOP.format(clear="optimizer.zero_grad()  # set_to_none"),
        LOOP.format(clear="optimizer.zero_grad(set_to_none=True)"),
        LOOP.format(clear="optimizer.zero_grad(set_to_none=args.set_to_none)"),
        LOOP.format(clear="optimizer.zero_grad(set_to_none=False)") + "graph = torch.cuda.CUDAGraph()\n",
        "optimizer.zero_grad(set_to_none=False)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO508", source) == []
