from __future__ import annotations

import pytest
from checking import fixed, hits, lines

IMPORT = "from torch import nn\n"


def net(forward: str, bias: str = "") -> str:
    return IMPORT + (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        f"        self.conv = nn.Conv2d(3, 8, 3{bias})\n"
        "        self.bn = nn.BatchNorm2d(8)\n"
        "    def forward(self, x):\n"
        f"        {forward}\n"
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())\n", 2),
        (IMPORT + "nn.Sequential(\n    nn.Linear(3, 8),\n    nn.BatchNorm1d(8),\n)\n", 3),
        (
            IMPORT
            + "layers = []\nlayers += [nn.Conv2d(3, 8, 3, bias=True), nn.BatchNorm2d(8)]\nnn.Sequential(*layers)\n",
            3,
        ),
        (net("return self.bn(self.conv(x))"), 5),
        (net("x = self.conv(x)\n        x = self.bn(x)\n        return x"), 5),
    ],
)
def test_found(source: str, line: int) -> None:
    (hit,) = hits("FO608", source)
    assert hit.node.lineno == line
    assert "has no effect: `nn.BatchNorm" in hit.message


def test_the_fix() -> None:
    source = IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))  # first\n"
    assert fixed("FO608", source) == source.replace("8, 3)", "8, 3, bias=False)")
    source = IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3, bias=True), nn.BatchNorm2d(8))\n"
    assert fixed("FO608", source) == source.replace("True", "False")


@pytest.mark.parametrize(
    "source",
    [
        IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8))\n",
        IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3, bias=use_bias), nn.BatchNorm2d(8))\n",
        IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, 1, 1, False), nn.BatchNorm2d(8))\n",
        IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8))\n",
        IMPORT + "nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.BatchNorm2d(8))\n",
        IMPORT + "heads = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)]\n",  # no sequence
        net("return self.bn(self.conv(x))", ", bias=False"),
        net("return self.bn(self.conv(x)) + self.conv(x)"),
        net("y = self.conv(x)\n        x = self.bn(y)\n        return x + y"),
        net("x = self.conv(x)\n        x = self.bn(x.relu())\n        return x"),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO608", source) == []


def test_what_it_computes() -> None:
    """The page's claim: any bias gives the same output, and a gradient of nothing."""
    import torch

    layer, norm, x = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.randn(4, 3, 8, 8)
    out = norm(layer(x))
    (out * torch.randn_like(out)).sum().backward()
    assert layer.bias is not None
    assert layer.bias.grad is not None
    assert layer.weight.grad is not None
    assert layer.bias.grad.abs().max() < 1e-4 * layer.weight.grad.abs().max()
    with torch.no_grad():
        layer.bias.add_(10.0)
    assert torch.allclose(norm(layer(x)), out, atol=1e-3)


def test_a_positional_bias_is_replaced() -> None:
    source = "from torch import nn\nc = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1, 1, 1, True), nn.BatchNorm2d(4))\n"
    assert "nn.Conv2d(3, 4, 3, 1, 1, 1, 1, False)" in fixed("FO608", source)
