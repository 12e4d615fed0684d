from __future__ import annotations

import pytest
from checking import hits, lines

LOOP = """
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        with {region}:
            loss = model(x.cuda(), y.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "region",
    [
        'torch.autocast("cuda", dtype=torch.float16)',
        'torch.autocast(device_type="cuda", dtype=torch.half)',
        'torch.amp.autocast("cuda")',
        "torch.cuda.amp.autocast()",
    ],
)
def test_found(region: str) -> None:
    (hit,) = hits("FO405", LOOP.format(region=region))
    assert hit.node.lineno == 6
    assert ("the default of CUDA" in hit.message) == ("dtype" not in region)


@pytest.mark.parametrize(
    "source",
    [
        LOOP.format(region='torch.autocast("cuda", dtype=torch.bfloat16)'),
        LOOP.format(region='torch.autocast("cpu")'),
        LOOP.format(region='torch.autocast("cuda", enabled=amp)'),
        LOOP.format(region='torch.autocast("cuda", dtype=dtype)'),
        LOOP.format(region='torch.autocast("cuda")').replace("loss.backward()", "scaler.scale(loss).backward()"),
        LOOP.format(region='torch.autocast("cuda")').replace("loss.backward()", "loss_scaler(loss, optimizer)"),
        LOOP.format(region='torch.autocast("cuda")').replace("loss.backward()", "accelerator.backward(loss)"),
        "import torch\ndef evaluate(model, x):\n    with torch.no_grad(), torch.autocast('cuda'):\n"
        "        return model(x)\ndef f(loss):\n    loss.backward()\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO405", source) == []


def test_the_smallest_gradient() -> None:
    import torch

    assert torch.tensor(6e-8).half().item() > 0
    assert torch.tensor(2.9e-8).half().item() == 0
