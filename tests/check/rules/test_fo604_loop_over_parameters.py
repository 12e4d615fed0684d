from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """\
import torch
device = "cuda"
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    {body}
"""


def loop(body: str) -> str:
    return LOOP.format(body=body.replace("\n", "\n    "))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("for p in model.parameters():\n    p.data -= lr * p.grad", "updates `model`"),
        ("for p in model.parameters():\n    p.data.add_(p.grad, alpha=-lr)", "updates `model`"),
        (
            "with torch.no_grad():\n    for name, w in net.named_parameters():\n        w -= lr * w.grad",
            "updates `net`",
        ),
        ("for p in model.parameters():\n    p.data = p.data - lr * p.grad.data", "updates `model`"),
        ("for p in model.parameters():\n    p.grad.data.clamp_(-1, 1)\noptimizer.step()", "clips the gradients"),
        (
            "optimizer.step()\nfor a, b in zip(ema.parameters(), model.parameters()):\n    a.data.mul_(d).add_(b.data)",
            "averages `model` into `ema`",
        ),
        (
            "for t, p in zip(target.parameters(), model.parameters()):\n    t.copy_(k * p.data + (1 - k) * t.data)",
            "averages `model` into `target`",
        ),
    ],
)
def test_found(body: str, what: str) -> None:
    (hit,) = hits("FO604", loop(body))
    assert what in hit.message


def test_in_a_function_that_the_step_calls() -> None:
    function = (
        "def soft(a, b):\n    for t, p in zip(a.parameters(), b.parameters()):\n        t.data.lerp_(p.data, 0.1)\n"
    )
    assert lines("FO604", function + loop("soft(target, model)")) == [2]


@pytest.mark.parametrize(
    "source",
    [
        loop("for p in model.parameters():\n    p.requires_grad = False"),
        loop("for p in model.parameters():\n    p.grad = None"),
        loop("if step % 100 == 0:\n    for p in model.parameters():\n        p.data -= lr * p.grad"),
        loop("for t, p in zip(target.parameters(), model.parameters()):\n    t.data.copy_(p.data)"),
        loop("pass") + "for p in model.parameters():\n    p.data.add_(p.grad)\n",
        loop("for p in model.parameters():\n    p.data -= lr * p.grad")
        .replace("cuda", "cpu")
        .replace(".to(device)", ""),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO604", source) == []
