from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
def train(model, loader, optimizer, scaler):
    for x, y in loader:
        {before}
        loss = model(x, y)
        loss.backward()
        {step}
"""


def loop(before: str = "pass", step: str = "optimizer.step()") -> str:
    return LOOP.format(before=before, step=step)


def test_found() -> None:
    (hit,) = hits("FO507", loop())
    assert hit.node.lineno == 6
    assert "`optimizer.step()` steps along the sum" in hit.message
    assert lines("FO507", loop(step="scaler.step(optimizer); scaler.update()")) == [6]


def test_a_script() -> None:
    source = """
    import torch
    model = torch.nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    for x in data:
        model(x).sum().backward()
        sgd.step()
    """
    assert lines("FO507", source) == [6]


@pytest.mark.parametrize(
    "source",
    [
        loop("optimizer.zero_grad()"),
        loop("model.zero_grad(set_to_none=True)"),
        loop("for p in model.parameters(): p.grad = None"),
        loop(step="optimizer.step(closure)"),
        loop(step="engine.step()"),
        loop().replace("loss.backward()", "engine.backward(loss)"),
        loop() + "\ndef clear(model):\n    model.zero_grad()\n",
        "loss.backward()\noptimizer.step()\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO507", source) == []
