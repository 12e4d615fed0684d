from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch

scaler = torch.amp.GradScaler("cuda")

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(model(x, y)).backward()
        scaler.step(optimizer)
        {after}
"""


def test_found() -> None:
    (hit,) = hits("FO404", LOOP.format(after="pass"))
    assert hit.node.lineno == 9
    assert hit.message == "`scaler.step` is never followed by `scaler.update()`: the second step raises RuntimeError"
    assert lines("FO404", LOOP.format(after="losses.update(1)")) == [9]


def test_in_a_class_and_from_outside() -> None:
    source = """
    class Trainer:
        def run(self, loader):
            for x, y in loader:
                self.scaler.scale(self.model(x, y)).backward()
                self.scaler.step(self.optimizer)
    """
    assert lines("FO404", source) == [5]
    assert lines("FO404", source.replace("self.scaler", "scaler").replace("(self, ", "(self, scaler, ")) == [5]


@pytest.mark.parametrize(
    "source",
    [
        LOOP.format(after="scaler.update()"),
        LOOP.format(after="finish(scaler)"),
        LOOP.format(after="pass") + "    scaler.update()\n",
        "def step(scaler, optimizer, loss):\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n",
        "scaler = Standardizer()\nfor x in loader:\n    scaler.step(x)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO404", source) == []


def test_pytorch_raises() -> None:
    import torch

    layer = torch.nn.Linear(2, 1)
    optimizer, scaler = torch.optim.SGD(layer.parameters(), 0.1), torch.amp.GradScaler("cpu")
    for _ in range(2):
        scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
        if _ == 1:
            with pytest.raises(RuntimeError, match="since the last update"):
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
