"""The share that really ran in low precision, counted from the graph of the first losses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flatout import Loop
from flatout.loop.numerics.share import Share


class Blocks(nn.Module):
    """A convolution, an attention, two products in fp32 by its own will, a product that no loss depends on."""

    def __init__(self, stubborn: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(16, 8)
        self.rest = nn.Linear(8, 8)
        self.stubborn = stubborn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.convolution(x).flatten(1)[:, None, None]
        x = nn.functional.scaled_dot_product_attention(x, x, x).flatten(1)
        x = self.head(x)
        self.rest(x)
        with torch.autocast("cpu", enabled=not self.stubborn):
            return self.rest(self.rest(x.float() if self.stubborn else x)).float()


@pytest.mark.parametrize(
    ("precision", "stubborn", "line"),
    [
        ("bf16", False, "5 of 5 matrix products and convolutions ran in bf16 (100%)"),
        ("fp16", False, "5 of 5 matrix products and convolutions ran in fp16 (100%)"),
        ("bf16", True, "3 of 5 matrix products and convolutions ran in bf16 (60%)"),
        ("fp32", False, None),
    ],
)
def test_the_share_is_said_once(
    precision: str, stubborn: bool, line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = Loop(device="cpu", precision=precision)
    model = Blocks(stubborn)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert loop.precision_share is None
    capsys.readouterr()
    for _ in range(3):
        with loop.step(samples=2):
            loop.backward(model(torch.ones(2, 1, 4, 4)).sum())
    said = capsys.readouterr().err
    assert said == (f"flatout: {line}\n" if line else "")
    assert loop.precision_share == {None: None, "60": 0.6}.get(line and line[-4:-2], 1.0)


def test_a_forward_pass_that_the_user_keeps_in_fp32(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(device="cpu", precision="bf16")
    model = nn.Linear(4, 1)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with loop.step(samples=2):
        with torch.autocast("cpu", enabled=False):
            loss = model(torch.ones(2, 4)).sum()
        loop.backward(loss)
    said = capsys.readouterr().err
    assert "0 of 1 matrix products and convolutions ran in bf16 (0%): the rest ran in float32" in said
    assert "does the model switch autocast off" in said
    assert loop.precision_share == 0


def test_recurrent_layers_and_einsum_count() -> None:
    share = Share("bf16")
    lstm, weight = nn.LSTM(8, 8, batch_first=True), torch.ones(8, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, _ = lstm(torch.ones(2, 3, 8))
        loss = torch.einsum("bij,jk->bik", out, weight).sum() + (weight @ torch.ones(8)).sum()
    share.count(loss)
    assert share.low == share.total >= 3


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiled_parts_are_not_counted(backend: str) -> None:
    layer = nn.Linear(4, 4)
    compiled = torch.compile(layer, backend=backend)
    share = Share("bf16")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        share.count(compiled(torch.ones(2, 4)).float().sum())
    assert (share.value, share.compiled) == (None, True)
    assert str(share).startswith("the model is compiled")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        share.count(layer(compiled(torch.ones(2, 4))).float().sum())
    assert str(share) == "1 of 1 matrix products and convolutions ran in bf16 (100%); compiled parts are not counted"


def test_a_loss_without_products() -> None:
    share = Share("fp16")
    share.count(torch.ones(3, requires_grad=True).sum())
    assert "depends on no matrix product" in str(share)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler looks at it
def test_counting_keeps_compiled_functions_compiled() -> None:
    """A dispatch mode around the first step would have made torch.compile give the function up for good."""
    compilations = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        compilations.append(graph)
        return graph.forward

    loss_fn = torch.compile(lambda out: out.float().square().mean(), backend=backend)
    loop = Loop(device="cpu", precision="bf16", quiet=True)
    model = nn.Linear(4, 1)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        with loop.step(samples=2):
            loop.backward(loss_fn(model(torch.ones(2, 4))))
    assert len(compilations) == 1
    assert loop.precision_share == 1
