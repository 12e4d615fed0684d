from __future__ import annotations

import pytest
from checking import hits, lines

NET = """
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = {made}
    def forward(self, x):
        return {used}
"""


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("torch.zeros(3)", "x - self.mean"),
        ("torch.tensor([0.5, 0.4, 0.3])", "(x - self.mean) / 2"),
        ("torch.tensor([0.5, 0.4]).view(2, 1)", "x * self.mean"),
        ("torch.arange(10)", "x + self.mean[:4]"),
        ("torch.ones(3, 3)", "F.conv2d(x, self.mean)"),
        ("torch.ones(3, 3)", "F.linear(x, self.mean)"),
        ("torch.eye(3)", "torch.matmul(x, self.mean)"),
    ],
)
def test_a_tensor_that_stays_behind(made: str, used: str) -> None:
    (hit,) = hits("FO208", NET.format(made=made, used=used))
    assert hit.node.lineno == 7
    assert "`self.mean` is a plain attribute" in hit.message


def test_one_that_wants_a_gradient() -> None:
    (hit,) = hits("FO208", NET.format(made="torch.zeros(3, requires_grad=True)", used="x - self.mean"))
    assert "no optimizer trains it" in hit.message


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("nn.Parameter(torch.zeros(3))", "x - self.mean"),
        ("torch.zeros(3, device=device)", "x - self.mean"),
        ("torch.tensor(0.5)", "x - self.mean"),
        ("torch.zeros(3)", "x - self.mean.to(x.device)"),
        ("torch.zeros(3)", "x - self.mean[:2].to(x)"),
        ("torch.zeros(3)", "x"),
        ("torch.arange(3)", "x[self.mean]"),
        ("torch.linspace(0, 1, 3)", "f(x, self.mean.tolist())"),
        ("unknown(3)", "x - self.mean"),
    ],
)
def test_what_looks_like_it_but_is_fine(made: str, used: str) -> None:
    assert lines("FO208", NET.format(made=made, used=used)) == []


def test_a_class_that_moves_itself() -> None:
    source = NET.format(made="torch.zeros(3)", used="x - self.mean")
    assert lines("FO208", source + "    def _apply(self, fn):\n        self.mean = fn(self.mean)\n") == []
    assert lines("FO208", source.replace("nn.Module", "object")) == []


def test_a_plain_attribute_is_not_moved() -> None:
    import torch

    names: dict[str, object] = {}
    exec(NET.format(made="torch.zeros(3)", used="x - self.mean"), names)
    net = names["Net"]()  # type: ignore[operator]
    assert net.to("meta").mean.device == torch.device("cpu")
    assert "mean" not in net.state_dict()
