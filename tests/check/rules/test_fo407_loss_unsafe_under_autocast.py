from __future__ import annotations

import pytest
from checking import hits, lines


def step(loss: str, region: str = 'torch.autocast("cuda")', made: str = "nn.BCELoss()") -> str:
    return (
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
        f"criterion = {made}\n"
        f"def step(model, x, y):\n    with {region}:\n        out = model(x)\n        return {loss}\n"
    )


@pytest.mark.parametrize(
    ("loss", "instead"),
    [
        ("criterion(out, y)", "nn.BCEWithLogitsLoss"),
        ("nn.BCELoss()(out, y)", "nn.BCEWithLogitsLoss"),
        ("F.binary_cross_entropy(torch.sigmoid(out), y)", "F.binary_cross_entropy_with_logits"),
    ],
)
def test_found(loss: str, instead: str) -> None:
    (hit,) = hits("FO407", step(loss))
    assert hit.node.lineno == 8
    assert "raises RuntimeError" in hit.message
    assert f"`{instead}`" in hit.remedy


@pytest.mark.parametrize(
    "source",
    [
        step("F.binary_cross_entropy_with_logits(out, y)"),
        step("criterion(out, y)", made="nn.BCEWithLogitsLoss()") + "# BCELoss\n",
        step("criterion(out, y)", region='torch.autocast("cuda", enabled=False)'),
        step("criterion(out, y)", region='torch.autocast("cpu")'),
        step("criterion(out, y)", region="torch.no_grad()"),
        step("out") + "    return criterion(out, y)\n",
        step("out\n        with torch.autocast('cuda', enabled=False):\n            return criterion(out.float(), y)"),
        step("loss_of(out, y)", made="make_loss()") + "# BCELoss\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO407", source) == []
