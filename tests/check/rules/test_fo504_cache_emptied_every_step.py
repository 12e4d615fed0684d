from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import gc
import torch
from gc import collect

def train(model, loader, optimizer):
    for step, x in enumerate(loader):
        model(x).sum().backward()
        optimizer.step()
        {body}
"""


@pytest.mark.parametrize("call", ["torch.cuda.empty_cache()", "gc.collect()", "collect()", "torch.mps.empty_cache()"])
def test_found(call: str) -> None:
    (hit,) = hits("FO504", LOOP.format(body=call))
    assert hit.node.lineno == 9
    assert hit.message.startswith(f"`{call}` runs every step: ")


def test_under_a_flag_of_the_mode_and_in_evaluation() -> None:
    assert lines("FO504", LOOP.format(body="if torch.cuda.is_available(): torch.cuda.empty_cache()")) == [9]
    source = """
    import torch

    @torch.no_grad()
    def validate(model, loader):
        for x in loader:
            model(x)
            torch.cuda.empty_cache()
    """
    (hit,) = hits("FO504", source)
    assert hit.node.lineno == 7
    assert "for every batch" in hit.message


def test_in_forward() -> None:
    source = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, x):
            torch.cuda.empty_cache()
            return x
    """
    assert lines("FO504", source) == [5]


@pytest.mark.parametrize(
    "source",
    [
        LOOP.format(body="if step % 100 == 0: torch.cuda.empty_cache()"),
        LOOP.format(body="pass") + "    torch.cuda.empty_cache()\n",
        LOOP.format(body="if spare: \n            for y in x: torch.cuda.empty_cache()"),
        LOOP.format(body="pass") + "\ndef main():\n    for e in range(9):\n        train(); torch.cuda.empty_cache()\n",
        LOOP.format(body="try: f()\n        except RuntimeError: torch.cuda.empty_cache()"),
        LOOP.format(body="torch.cuda.empty_cache(); print(torch.cuda.max_memory_allocated())"),
        "import gc\ndef peak(model, x):\n    gc.collect()\n    model(x).backward()\n",
        "import gc\nfor name in names:\n    gc.collect()\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO504", source) == []
