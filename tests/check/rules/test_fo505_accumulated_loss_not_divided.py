from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch.nn.functional as F

def train(model, loader, optimizer, criterion, scaler, n=4):
    for i, (x, y) in enumerate(loader):
        {loss}
        {backward}
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def loop(loss: str = "loss = criterion(model(x), y)", backward: str = "loss.backward()") -> str:
    return LOOP.format(loss=loss, backward=backward)


@pytest.mark.parametrize(
    ("loss", "backward"),
    [
        ("loss = criterion(model(x), y)", "loss.backward()"),
        ("loss = F.cross_entropy(model(x), y) + 0.1 * penalty(model)", "scaler.scale(loss).backward()"),
        ("loss = model(x, y).loss", "loss.backward()"),
    ],
)
def test_found(loss: str, backward: str) -> None:
    (hit,) = hits("FO505", loop(loss, backward))
    assert hit.node.lineno == 6
    assert "the gradients of `n` batches are summed" in hit.message
    assert hit.remedy == "Run backward on `loss / n`."


def test_a_number_of_batches() -> None:
    (hit,) = hits("FO505", loop().replace("% n ==", "% 8 =="))
    assert "is 8 times the mean" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        loop("loss = criterion(model(x), y) / n"),
        loop("loss = criterion(model(x), y); loss = loss / n"),
        loop("loss = criterion(model(x), y); loss /= n"),
        loop(backward="(loss / n).backward()"),
        loop(backward="scaler.scale(loss / n).backward()"),
        loop("loss = criterion(model(x), y) / len(x)"),
        loop("loss = F.cross_entropy(model(x), y, reduction='sum')"),
        loop("loss = (model(x) - y).square().sum()"),
        loop() + "\noptimizer = make(lr=lr / n)\n",
        loop(backward="accelerator.backward(loss)"),
        loop().replace("if (i + 1) % n == 0:", "if True:"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO505", source) == []


def test_what_it_does() -> None:
    """The page's claim: the gradient is that of the whole window, times the number of batches."""
    import torch

    layer, data = torch.nn.Linear(3, 1), torch.randn(8, 3)
    layer(data).square().mean().backward()
    assert layer.weight.grad is not None
    whole = layer.weight.grad.clone()
    layer.zero_grad()
    for part in data.split(2):
        layer(part).square().mean().backward()
    assert layer.weight.grad is not None
    assert torch.allclose(layer.weight.grad, 4 * whole)
