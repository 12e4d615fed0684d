"""The options of prepare: what each changes in how a model runs, and that it changes nothing else."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from flatout import Loop
from flatout.errors import UsageError
from flatout.loop.options import BACKEND
from flatout.loop.recompute import repeated_blocks

ROUNDING = 1e-5  # of losses, relative; the classes measured are 1e-7 to 1e-6 after as many steps


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.3), nn.Linear(2 * width, width)
        )
        self.runs = 0

    def forward(self, x: torch.Tensor, *, gain: float = 1.0) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            self.runs += 1
        return x + gain * self.layers(self.norm(x))


class Blocks(nn.Module):
    """Three blocks with dropout, between two layers that are no blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.blocks = nn.ModuleList([Block(8) for _ in range(3)])
        self.last = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x, gain=0.5)
        return self.last(x)


class Images(nn.Module):
    """Convolutions with BatchNorm in two equal blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(2))
        )
        self.head = nn.Linear(8, 1)
        self.seen: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            self.seen.append(x.is_contiguous(memory_format=torch.channels_last))
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def small_blocks() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(2)))


def train(
    build: Callable[[], nn.Module], shape: tuple[int, ...], optimizer: str = "SGD", steps: int = 4, **options: Any
) -> tuple[list[float], nn.Module]:
    """The losses of a few steps, and the model."""
    torch.manual_seed(0)
    model = build()
    x = torch.randn(shape)
    loop = Loop(device="cpu", precision="fp32", quiet=True)
    model, _ = loop.prepare(model, getattr(torch.optim, optimizer)(model.parameters(), lr=0.01), **options)
    losses = []
    for _ in range(steps):
        with loop.step(samples=len(x)):
            losses.append(loop.backward(model(x).square().mean()).item())
    return losses, model


def equal(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


# --- activation checkpointing: exact ---------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [True, (Block,), [Block]])
def test_recomputing_blocks_is_exact_with_dropout(asked: Any) -> None:
    losses, plain = train(Blocks, (5, 6))
    again, model = train(Blocks, (5, 6), checkpoint_activations=asked)
    assert again == losses
    assert equal(model, plain)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [block.runs for block in plain.blocks] == [4] * 3
    assert [block.runs for block in model.blocks] == [8] * 3  # forward, and again in the backward pass


def test_recomputing_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in what autograd saves: with blocks recomputed, their input alone."""

    def saved(model: nn.Module) -> int:
        total = 0

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(torch.ones(500, 6)).sum()
        return total

    plain = Blocks()
    less = Loop(device="cpu", quiet=True).prepare(copy.deepcopy(plain), checkpoint_activations=True)
    assert saved(less) < saved(plain) / 3


def test_recomputing_takes_batchnorms_statistics_once() -> None:
    losses, plain = train(Images, (4, 3, 6, 6))
    again, model = train(Images, (4, 3, 6, 6), checkpoint_activations=True)
    assert again == losses
    assert equal(model, plain)  # running statistics and the count of batches too
    assert model.blocks[0][1].num_batches_tracked == 4


def test_recomputing_only_where_there_is_a_backward_pass() -> None:
    _, model = train(Blocks, (5, 6), steps=1, checkpoint_activations=True)
    before = model.blocks[0].runs
    with torch.no_grad():
        model.eval()(torch.ones(2, 6))
    assert model.blocks[0].runs == before + 1


def test_copies_of_a_model_recompute_themselves() -> None:
    _, model = train(Blocks, (5, 6), steps=1, checkpoint_activations=True)
    other = copy.deepcopy(model)
    runs = model.blocks[0].runs
    other(torch.ones(2, 6)).sum().backward()
    assert model.blocks[0].runs == runs
    assert other.blocks[0].runs == runs + 2
    assert other.blocks[0].layers[0].weight.grad is not None


def test_which_blocks_are_repeated() -> None:
    assert [type(b) for b in repeated_blocks(Blocks())] == [Block] * 3
    assert list(repeated_blocks(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))) == []  # layers are no blocks
    nested = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Block(4), Block(4)))
    assert len(list(repeated_blocks(nested))) == 2
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 3)
    assert [type(b) for b in repeated_blocks(encoder)] == [nn.TransformerEncoderLayer] * 3


def test_a_forward_pass_that_is_never_the_same_is_refused() -> None:
    layer = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.ReLU())
    with pytest.raises(
        UsageError, match=r"loop.prepare\(checkpoint_activations=...\): a Sequential uses spectral norm"
    ):
        Loop(device="cpu", quiet=True).prepare(nn.Sequential(layer, copy.deepcopy(layer)), checkpoint_activations=True)


# --- compile: exact with a backend that keeps the kernels ------------------------------------------------------------


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiling_without_other_kernels_is_exact(
    monkeypatch: pytest.MonkeyPatch, backend: str, checkpoint: bool
) -> None:
    monkeypatch.setattr("flatout.loop.options.BACKEND", backend)
    torch._dynamo.reset()
    build = small_blocks if checkpoint else Images
    shape = (5, 6) if checkpoint else (4, 3, 6, 6)
    losses, plain = train(build, shape)
    again, model = train(build, shape, compile=True, checkpoint_activations=checkpoint)
    assert again == losses
    assert equal(model, plain)
    assert list(model.state_dict()) == list(plain.state_dict())  # no _orig_mod


def test_the_mode_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(nn.Module, "compile", lambda self, **options: asked.append(options))
    for value in (True, "reduce-overhead", False):
        loop = Loop(device="cpu", quiet=True)
        loop.prepare(nn.Linear(1, 1), compile=value)
    assert asked == [{"backend": BACKEND, "mode": None}, {"backend": BACKEND, "mode": "reduce-overhead"}]


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor's CPU code needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(280)
def test_inductor_is_equal_but_for_rounding() -> None:
    torch._dynamo.reset()
    losses, _ = train(small_blocks, (5, 6))
    again, model = train(small_blocks, (5, 6), compile=True)
    assert again == pytest.approx(losses, rel=ROUNDING)
    assert next(iter(model.state_dict())) == "0.0.weight"


# --- layout and fused kernels: rounding ------------------------------------------------------------------------------


def test_channels_last_is_equal_but_for_rounding() -> None:
    losses, plain = train(Images, (4, 3, 6, 6))
    again, model = train(Images, (4, 3, 6, 6), channels_last=True)
    assert again == pytest.approx(losses, rel=ROUNDING)
    assert model.stem.weight.is_contiguous(memory_format=torch.channels_last)
    assert model.seen == [True] * 4
    assert plain.seen == [False] * 4


def test_channels_last_leaves_other_inputs_alone() -> None:
    class Echo(nn.Module):
        def forward(self, *inputs: Any, **more: Any) -> Any:
            return inputs, more

    model = Loop(device="cpu", quiet=True).prepare(Echo(), channels_last=True)
    image, volume, text = torch.ones(2, 3, 4, 4), torch.ones(2, 3, 4, 4, 4), torch.ones(2, 3, 4, 4, dtype=torch.long)
    (a, b, c, d), more = model(image, text, "x", None, volume=volume)
    assert a.is_contiguous(memory_format=torch.channels_last)
    assert more["volume"].is_contiguous(memory_format=torch.channels_last_3d)
    assert b is text
    assert (c, d) == ("x", None)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_fused_is_equal_but_for_rounding(optimizer: str) -> None:
    losses, _ = train(Blocks, (5, 6), optimizer)
    again, _ = train(Blocks, (5, 6), optimizer, fused=True)
    assert again == pytest.approx(losses, rel=1e-4)


def test_fused_as_if_the_optimizer_had_been_made_so() -> None:
    def run(**options: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
        for step in range(4):
            if step == 2 and not options:  # after some steps without: its state goes along
                Loop(device="cpu", quiet=True).prepare(optimizer, fused=True)
            optimizer.zero_grad()
            model(torch.ones(2, 8)).square().sum().backward()
            optimizer.step()
        assert all(group["fused"] for group in optimizer.param_groups)
        return model.weight.detach()

    assert torch.allclose(run(), run(fused=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("other", ["foreach", "differentiable"])
def test_fused_excludes(other: str) -> None:
    optimizer = torch.optim.Adam(nn.Linear(1, 1).parameters(), **{other: True})
    with pytest.raises(UsageError, match=rf"loop.prepare\(Adam, fused=True\): Adam was made with {other}=True"):
        Loop(device="cpu", quiet=True).prepare(optimizer, fused=True)
