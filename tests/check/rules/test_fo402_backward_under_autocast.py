from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch

def train(model, loader, optimizer, scaler, args):
    for x, y in loader:
        optimizer.zero_grad()
        with {region}:
            loss = model(x, y)
            {backward}
        optimizer.step()
"""


def loop(region: str = 'torch.autocast("cuda")', backward: str = "loss.backward()") -> str:
    return LOOP.format(region=region, backward=backward)


@pytest.mark.parametrize("backward", ["loss.backward()", "scaler.scale(loss).backward()", "(loss / 4).backward()"])
@pytest.mark.parametrize("region", ['torch.autocast("cuda")', "torch.cuda.amp.autocast(enabled=args.amp)"])
def test_found(region: str, backward: str) -> None:
    (hit,) = hits("FO402", loop(region, backward))
    assert hit.node.lineno == 8
    assert hit.message.startswith(f"`{backward}` runs inside the autocast region of line 6")


@pytest.mark.parametrize(
    "source",
    [
        loop('torch.autocast("cuda", enabled=False)'),
        loop("torch.no_grad()", "loss.backward()") + "# autocast\n",
        loop(backward="pass") + "        loss.backward()\n",
        loop(backward="pass\n        with torch.autocast('cuda', enabled=False):\n            loss.backward()"),
        loop(backward="accelerator.backward(loss)"),
        "import torch\nclass F(torch.autograd.Function):\n    @staticmethod\n    @torch.autocast('cuda')\n"
        "    def backward(ctx, g):\n        return F.backward(ctx, g)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO402", source) == []


def test_what_it_does_to_a_float32_part() -> None:
    """The page's claim: the gradient of a part kept in float32 is rounded to the region's precision."""
    import torch

    def gradient(inside: bool) -> torch.Tensor:
        torch.manual_seed(0)
        layer = torch.nn.Linear(64, 64)
        x = torch.randn(8, 64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.autocast("cpu", enabled=False):
                loss = layer(x).square().mean()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert layer.weight.grad is not None
        return layer.weight.grad

    right, wrong = gradient(False), gradient(True)
    assert not torch.equal(right, wrong)
    assert torch.equal(wrong, wrong.bfloat16().float())
