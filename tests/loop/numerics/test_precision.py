"""Which precision is chosen, that it is on wherever a prepared model is called, and that it never freezes weights."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from flatout import Loop
from flatout.errors import UsageError
from flatout.loop.numerics.precision import best, mixed_switches, remark


@pytest.mark.parametrize(
    ("device", "capability", "mode"),
    [
        ("cpu", None, "fp32"),
        ("mps", None, "fp32"),
        ("cuda", (6, 1), "fp32"),
        ("cuda", (7, 0), "fp16"),
        ("cuda", (7, 5), "fp16"),
        ("cuda", (8, 0), "bf16"),
        ("cuda", (8, 9), "bf16"),
        ("cuda", (12, 0), "bf16"),
    ],
)
def test_auto(device: str, capability: tuple[int, int] | None, mode: str) -> None:
    assert best(device, capability)[0] == mode


@pytest.mark.parametrize(
    ("asked", "device", "capability", "said"),
    [
        ("bf16", "cuda", (7, 5), "no tensor cores for bf16 and is no faster in it; fp16 is the fast one here"),
        ("bf16", "cuda", (6, 1), "it has no tensor cores"),
        ("fp16", "cuda", (6, 1), "it saves memory, not time"),
        ("tf32", "cuda", (7, 0), "no tensor cores for tf32"),
        ("tf32", "cpu", None, "TF32 is a format of NVIDIA's GPUs"),
        ("bf16", "cuda", (8, 0), "asked for"),
        ("fp16", "cuda", (7, 0), "asked for"),
        ("bf16", "cpu", None, "asked for"),
    ],
)
def test_what_is_slow_is_said(asked: str, device: str, capability: tuple[int, int] | None, said: str) -> None:
    assert remark(asked, device, capability).endswith(said) or said in remark(asked, device, capability)


def test_an_unknown_precision() -> None:
    with pytest.raises(UsageError, match=r"Loop\(precision='half'\): not a precision; give one of auto, fp32"):
        Loop(device="cpu", precision="half")


def test_tf32_is_switched_by_the_switch_that_mixes(capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        Loop(device="cpu", precision="fp32", quiet=True)
        assert torch.get_float32_matmul_precision() == before
        Loop(device="cpu", precision="tf32")
        assert torch.get_float32_matmul_precision() == "high"
        Loop(device="cpu", precision="fp32", quiet=True)  # what was set stays: it is not this loop's to take back
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert "warning" not in capsys.readouterr().err
    assert mixed_switches() is None


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="this PyTorch has the old switch alone (2.8)"
)
def test_mixed_switches_are_said() -> None:
    """In a process of its own: the state cannot be taken back."""
    script = (
        "import torch, flatout\n"
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "flatout.Loop(device='cpu', precision='fp32')\n"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.count("warning: TF32 was switched by torch.backends...fp32_precision") == 1


# --- autocast reaches every call -------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.fail = False

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fail:
            raise KeyboardInterrupt
        return self.layer(x)


@pytest.fixture
def prepared() -> Callable[..., tuple[Loop, Encoder]]:
    def made(precision: str = "bf16", **options: Any) -> tuple[Loop, Encoder]:
        loop = Loop(device="cpu", precision=precision, quiet=True)
        model = Encoder()
        return loop, loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5), **options)[0]

    return made


X = torch.ones(2, 8)


def test_other_methods_than_forward(prepared: Callable[..., tuple[Loop, Encoder]]) -> None:
    loop, model = prepared()
    with loop.step(samples=2):
        assert model.encode(X).dtype == torch.bfloat16
        loop.backward(model.encode(X).float().sum())
    with loop.autocast():
        assert model.encode(X).dtype == torch.bfloat16
    assert model.encode(X).dtype == torch.float32


def test_calls_outside_of_steps(prepared: Callable[..., tuple[Loop, Encoder]]) -> None:
    loop, model = prepared()
    assert model(X).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    average = copy.deepcopy(model)
    assert average(X).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.float16):
        assert model(X).dtype == torch.float16  # the caller's own
    with loop.step(samples=2):
        with torch.autocast("cpu", enabled=False):
            assert model(X).dtype == torch.float32  # the caller's own, inside of a step
        loop.backward(model(X).float().sum())
    assert prepared("fp32")[1](X).dtype == torch.float32


def test_a_call_that_fails_leaves_autocast(prepared: Callable[..., tuple[Loop, Encoder]]) -> None:
    _, model = prepared()
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(2, 3))
    assert not torch.is_autocast_enabled("cpu")


def test_a_call_that_ctrl_c_ends_is_left_at_the_next_step(prepared: Callable[..., tuple[Loop, Encoder]]) -> None:
    loop, model = prepared()
    model.fail = True
    with pytest.raises(KeyboardInterrupt):
        model(X)
    model.fail = False
    assert model(X).dtype == torch.bfloat16
    with loop.step(samples=2):
        loop.backward(model(X).float().sum())
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("compile", [False, True])
def test_weights_do_not_freeze(
    prepared: Callable[..., tuple[Loop, Encoder]], monkeypatch: pytest.MonkeyPatch, compile: bool
) -> None:
    """One autocast around everything trains on copies of the first weights: every loss is the first one."""
    monkeypatch.setattr("flatout.loop.options.BACKEND", "eager")
    loop, model = prepared(compile=compile)
    losses, outside = [], []
    for _ in range(4):
        with loop.step(samples=2):
            losses.append(loop.backward(model(X).float().square().mean()).item())
        outside.append(model(X).detach().float().square().mean().item())
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 4
    assert outside[:3] == losses[1:]


def test_compiled_models_have_autocast_outside_of_steps(
    prepared: Callable[..., tuple[Loop, Encoder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flatout.loop.options.BACKEND", "eager")
    loop, model = prepared(compile=True)
    assert model(X).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
    with loop.step(samples=2):
        loop.backward(model(X).float().sum())


def test_compiled_once_for_inside_and_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        compilations.append(graph)
        return graph.forward

    monkeypatch.setattr("flatout.loop.options.BACKEND", backend)
    loop = Loop(device="cpu", precision="bf16", quiet=True)
    model = Encoder()
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5), compile=True)
    for _ in range(3):
        with loop.step(samples=2):
            loop.backward(model(X).float().sum())
        model(X)
    assert len(compilations) == 1


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("part", [False, True])
def test_the_precision_is_that_of_the_loop_that_prepared_last(
    monkeypatch: pytest.MonkeyPatch, compile: bool, part: bool
) -> None:
    """In a notebook a model is prepared by one loop after another. What the first has left must not stay."""
    monkeypatch.setattr("flatout.loop.options.BACKEND", "eager")
    inner = Encoder()
    model = nn.Sequential(inner)
    Loop(device="cpu", precision="bf16", quiet=True).prepare(inner if part else model, compile=compile)
    for again in (model, copy.deepcopy(model)):
        loop = Loop(device="cpu", precision="fp32", quiet=True)
        loop.prepare(again, torch.optim.SGD(again.parameters(), lr=0.5))
        assert again(X).dtype == torch.float32
        with loop.step(samples=2):
            assert again(X).dtype == torch.float32
            loop.backward(again(X).sum())
    loop = Loop(device="cpu", precision="bf16", quiet=True)
    loop.prepare(inner, model)
    assert inner(X).dtype == model(X).dtype == torch.bfloat16


def test_a_whole_model_can_be_saved(prepared: Callable[..., tuple[Loop, Encoder]]) -> None:
    _, model = prepared()
    assert pickle.loads(pickle.dumps(model))(X).dtype == torch.bfloat16
