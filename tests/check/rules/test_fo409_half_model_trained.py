from __future__ import annotations

import pytest
from checking import hits, lines

SCRIPT = """
import torch
from torch import nn

{made}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    loss = model(x.cuda().half(), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "model = nn.Linear(4, 4).cuda().half()",
        "model = nn.Linear(4, 4).half().cuda()",
        'model = nn.Linear(4, 4).to("cuda", dtype=torch.float16)',
        'model = nn.Linear(4, 4).to("cuda"); model.half()',
    ],
)
def test_found(made: str) -> None:
    (hit,) = hits("FO409", SCRIPT.format(made=made))
    assert hit.node.lineno == 4
    assert hit.message.startswith("`model` is trained with float16 weights")


def test_a_function_that_is_given_the_model() -> None:
    source = """
    import torch

    def train(model, loader):
        model.half()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x in loader:
            model(x).backward()
            optimizer.step()
    """
    assert lines("FO409", source) == [4]


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT.format(made="model = nn.Linear(4, 4).cuda()"),
        SCRIPT.format(made="model = nn.Linear(4, 4).to(torch.bfloat16)") + "# float16\n",
        SCRIPT.format(made="model = nn.Linear(4, 4).cuda()") + "model.half()\n",
        SCRIPT.format(made="teacher = nn.Linear(4, 4).half()\nmodel = nn.Linear(4, 4)"),
        SCRIPT.format(made="model = nn.Linear(4, 4).half()  # master weights in the optimizer"),
        "import torch\nmodel = torch.nn.Linear(4, 4).half().eval()\nmodel(x)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO409", source) == []


def test_what_it_does() -> None:
    """The page's claims, run."""
    import torch

    def moved(dtype: torch.dtype) -> float:
        torch.manual_seed(0)
        layer = torch.nn.Linear(64, 10).to(dtype)
        optimizer = torch.optim.SGD(layer.parameters(), 1e-4)
        before = layer.weight.detach().clone()
        x, y = torch.randn(32, 64).to(dtype), torch.randint(0, 10, (32,))
        for _ in range(50):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x).float(), y).backward()
            optimizer.step()
        return (layer.weight != before).float().mean().item()

    assert moved(torch.float32) > 0.99
    assert moved(torch.float16) < 0.2

    layer = torch.nn.Linear(64, 10).half()
    optimizer = torch.optim.Adam(layer.parameters(), 1e-3)
    x = torch.nn.functional.one_hot(torch.tensor([1]), 64).half()  # all other columns have a gradient of zero
    layer(x).sum().backward()
    optimizer.step()
    assert layer.weight.isnan().any()
