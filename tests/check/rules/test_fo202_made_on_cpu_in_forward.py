from __future__ import annotations

import pytest
from checking import fixed, lines

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        {statement}
        return x
"""


@pytest.mark.parametrize(
    "statement",
    [
        "x = x + torch.zeros(10)",
        "positions = torch.arange(n)",
        "h = torch.zeros(n, 4)",
        "x = torch.cat([x, torch.ones(n, 1)], dim=1)",
        "weights = torch.tensor([0.1, 0.9])",
        "mask = torch.triu(torch.ones(n, n), diagonal=1)",
        "h = torch.FloatTensor(n, 4)",
    ],
)
def test_made_on_the_cpu(statement: str) -> None:
    assert lines("FO202", NET.format(statement=statement)) == [6]


@pytest.mark.parametrize(
    "statement",
    [
        "x = x + torch.zeros(10, device=x.device)",
        "x = x + torch.zeros(10).to(x)",
        "x = x + torch.ones(n, n).triu().to(x.device)",
        "h = torch.zeros(n, 4)\n        h = h.to(x.device)",
        "x = x + torch.zeros_like(x)",
        "x = x * torch.tensor(3.0)",
        "x = x * torch.tensor(self.scale)",
        "x = x[torch.randperm(n)]",
        "rows = torch.arange(n)\n        x = x[rows]",
        "steps = torch.linspace(0, 1, n).tolist()",
        "h = x.new_zeros(n, 4)",
        "h = torch.zeros(n, 4, **self.kwargs)",
        "x = x if torch.rand(1) < self.p else -x",
        "seed = torch.randint(0, 9, (1,))",
        "sizes = torch.IntTensor([n])\n        x = x[:, : sizes[0]]",
        "rows = torch.arange(n)\n        grid = rows[None] * 2\n        x = x + grid.cuda()",
        "rows = torch.arange(n)\n        x = x + (rows * 2).to(x.device)",
        "r = 1 + 2 * torch.rand(2)\n        x = x[: int(n * r[0])]",
        "for f in torch.rand(n) * 2:\n            x = x + kernel(f).to(x.device)",
        "boxed = torch.IntTensor([self.channels])\n        x = fused(x, boxed)",
        "p = torch.softmax(torch.Tensor(e), 0)\n        best = p.argmax()\n        x = self.experts[best.item()](x)",
    ],
)
def test_what_follows_the_input_or_may_stay(statement: str) -> None:
    assert lines("FO202", NET.format(statement=statement)) == []


def test_outside_of_forward_nothing_is_said() -> None:
    source = NET.format(statement="pass") + "    def reset(self):\n        self.h = torch.zeros(3)\n"
    assert lines("FO202", source) == []


def test_a_default_device_may_be_the_gpu() -> None:
    source = NET.format(statement="x = x + torch.zeros(10)") + "\ntorch.set_default_device('cuda')\n"
    assert lines("FO202", source) == []


def test_the_fix_follows_the_input() -> None:
    text = fixed("FO202", NET.format(statement="positions = torch.arange(n)  # all"))
    assert "positions = torch.arange(n, device=x.device)  # all" in text
