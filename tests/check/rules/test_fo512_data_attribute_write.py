from __future__ import annotations

import pytest
from checking import hits, lines


def step(write: str) -> str:
    return (
        "import torch\ndef step(model, x, weight):\n    out = model(x)\n"
        f"    {write}\n    loss = out.sum()\n    loss.backward()\n"
    )


@pytest.mark.parametrize(
    "write", ["out.data[0] = 0", "out.data = x", "out.data.clamp_(0, 1)", "out.data *= 2", "out.data.mul_(2)"]
)
def test_found(write: str) -> None:
    (hit,) = hits("FO512", step(write))
    assert hit.node.lineno == 4
    assert hit.message.startswith("`out` hangs on a graph")


@pytest.mark.parametrize(
    "write",
    [
        "y = out.data.clone()",
        "y = out.data + 1",
        "weight.data.copy_(x)",
        "model.weight.data.normal_()",
        "x.data = x",
        "y = out.detach().data; y.data[0] = 1",
    ],
)
def test_what_looks_like_it_but_is_fine(write: str) -> None:
    assert lines("FO512", step(write)) == []


def test_what_it_does() -> None:
    """The page's claim: a wrong gradient without a word, where the same write in sight of autograd raises."""
    import torch

    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.data.zero_()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0]  # exp'(1) is 2.7

    z = x.exp()
    z.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
