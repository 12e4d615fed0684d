"""Steps in parts: the same training as with whole batches, however much fits into memory."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader

from flatout import Loop
from flatout.errors import TrainingError, UsageError
from flatout.loop.windows.microbatch import is_out_of_memory

Make = Callable[..., tuple[nn.Module, torch.optim.Optimizer, DataLoader]]


class Greedy(nn.Module):
    """Runs out of memory, really, for more than `fits` samples; in the backward pass where asked."""

    def __init__(self, fits: int, *, backward: bool = False, message: str | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.fits = fits
        self.sizes: list[int] = []
        self.register_buffer("calls", torch.zeros(()))
        self._backward, self._message = backward, message

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(x))
        self.calls += 1
        hidden = self.layers(x)
        if len(x) > self.fits:
            if self._backward:
                hidden.register_hook(lambda gradient: self._fail())
            else:
                self._fail()
        return hidden

    def _fail(self) -> None:
        random.random(), np.random.rand(), torch.rand(1)  # what a failed attempt may have drawn
        raise torch.OutOfMemoryError("CUDA out of memory.") if self._message is None else RuntimeError(self._message)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def gradient_of(model: nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def in_parts(model: nn.Module, **loop_settings: Any) -> tuple[Loop, nn.Module]:
    loop = Loop(device="cpu", quiet=True, **{"precision": "fp32", **loop_settings})
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    return loop, model


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_parts_train_as_the_whole_batch(samples: int, fits: int, backward: bool) -> None:
    x, y = torch.randn(samples, 4), torch.randn(samples, 1)
    loop, model = in_parts(Greedy(fits, backward=backward))
    start = weights(model)
    whole = nn.functional.mse_loss(model.layers(x), y)
    truth = gradient_of(model.layers, whole)

    def compute(part: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return nn.functional.mse_loss(model(part[0]), part[1])

    loss = loop.step_in_parts((x, y), compute)
    assert torch.allclose(start - weights(model), truth, rtol=1e-4, atol=1e-6)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
    assert not loss.requires_grad
    assert loop.optimizer_steps == 1
    assert len(model.sizes) < 4 * samples + 8
    fitting = [size for size in model.sizes if size <= fits]
    assert sum(fitting[-samples:]) >= samples


def test_the_size_that_fits_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(device="cpu", precision="fp32")
    model = Greedy(3)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        loop.step_in_parts(torch.ones(10, 4), lambda part: model(part).square().mean())
    assert model.sizes == [10, 5, *[2, 3, 2, 3]] + [2, 3, 2, 3] * 2  # parts of at most 3, as even as can be
    said = capsys.readouterr().err
    assert said.count("out of memory with 10 samples at once: going on with parts of 5, same batch") == 1
    assert said.count("going on with parts of 3") == 1


def test_a_batch_that_fits_is_not_cut() -> None:
    """Nothing differs from a step."""
    loop, model = in_parts(Greedy(99))
    other_loop, other = in_parts(Greedy(99))
    x = torch.randn(7, 4)
    for _ in range(3):
        loss = loop.step_in_parts(x, lambda part: model(part).square().mean())
        with other_loop.step(samples=7):
            assert loss == other_loop.backward(other(x).square().mean())
    assert torch.equal(weights(model), weights(other))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_in_low_precision(precision: str) -> None:
    loop, model = in_parts(Greedy(4), precision=precision)
    if precision == "fp16":
        loop.precision.scaler.load_state_dict({**loop.precision.scaler.state_dict(), "scale": 64.0})
    x = torch.randn(8, 4)
    start, truth = weights(model), gradient_of(model.layers, model.layers(x).square().mean())
    loop.step_in_parts(x, lambda part: model(part).float().square().mean())
    assert (start - weights(model) - truth).norm() / truth.norm() < 0.02
    assert loop.precision_share == 1


def test_tokens_weigh() -> None:
    x, labels = torch.randn(6, 4), torch.tensor([0, -100, 1, 2, -100, -100])
    torch.manual_seed(0)
    loop = Loop(device="cpu", precision="fp32", quiet=True)
    model = nn.Linear(4, 3)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    start, truth = weights(model), gradient_of(model, nn.functional.cross_entropy(model(x), labels))

    def compute(part: dict[str, torch.Tensor]) -> torch.Tensor:
        if len(part["x"]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        loss = nn.functional.cross_entropy(model(part["x"]), part["labels"], reduction="sum")
        return loss / (part["labels"] != -100).sum().clamp(min=1)

    loop.step_in_parts({"x": x, "labels": labels}, compute, weight=lambda part: (part["labels"] != -100).sum())
    assert torch.allclose(start - weights(model), truth, atol=1e-6)


@pytest.mark.parametrize("backward", [False, True])
def test_a_failed_attempt_leaves_no_trace(backward: bool) -> None:
    """Of its own: random numbers, buffers, gradients, activations."""
    loop, model = in_parts(Greedy(4, backward=backward))
    kept: list[weakref.ref[Any]] = []

    def compute(part: torch.Tensor) -> torch.Tensor:
        marker = nn.functional.dropout(part, 0.5)
        kept.append(weakref.ref(marker))
        return model(marker).square().mean()

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    loop.step_in_parts(torch.ones(8, 4), compute)
    drawn = torch.rand(3)
    assert model.sizes == [8, 4, 4]
    assert model.calls == 2  # as if the first attempt had not been
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    torch.set_rng_state(states[0])
    for _ in range(2):
        nn.functional.dropout(torch.ones(4, 4), 0.5)
    assert torch.equal(torch.rand(3), drawn)
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    "message",
    [
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "CUDA error: out of memory",
        "MPS backend out of memory (MPS allocated: 1.2 GB",
    ],
)
def test_other_words_for_out_of_memory(message: str) -> None:
    loop, model = in_parts(Greedy(2, message=message))
    loop.step_in_parts(torch.ones(4, 4), lambda part: model(part).mean())
    assert model.sizes == [4, 2, 2]


def test_the_allocators_own_words() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)


def test_other_errors_are_the_callers() -> None:
    loop, model = in_parts(Greedy(2, message="shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes cannot"):
        loop.step_in_parts(torch.ones(4, 4), lambda part: model(part).mean())
    assert all(p.grad is None for p in model.parameters())
    loop.step_in_parts(torch.ones(2, 4), lambda part: model(part).mean())
    assert loop.optimizer_steps == 1


def test_a_single_sample_that_does_not_fit() -> None:
    loop, model = in_parts(Greedy(0))
    with pytest.raises(TrainingError, match=r"loop.step_in_parts\(batch, compute_loss\): a single sample") as caught:
        loop.step_in_parts(torch.ones(9, 4), lambda part: model(part).mean())
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    assert model.sizes == [9, 4, 3, 1, 1]  # of even parts, the first
    assert loop.optimizer_steps == 0
    assert all(p.grad is None for p in model.parameters())


def test_a_size_that_a_short_batch_is_below_anyway() -> None:
    """Parts of 8 are known to fit; 3 samples that do not are cut at once, and not tried again as they are."""
    loop, model = in_parts(Greedy(8))
    loop.step_in_parts(torch.ones(16, 4), lambda part: model(part).mean())
    model.sizes.clear()
    model.fits = 2
    loop.step_in_parts(torch.ones(3, 4), lambda part: model(part).mean())
    assert model.sizes == [3, 1, 2]


def test_only_the_named_optimizers_step() -> None:
    loop, model = in_parts(Greedy(2))
    other = nn.Linear(1, 1)
    other, optimizer = loop.prepare(other, torch.optim.SGD(other.parameters(), lr=1.0))
    start = weights(model)
    loop.step_in_parts(torch.ones(4, 1), lambda part: model(other(part).expand(-1, 4)).mean(), optimizer)
    assert torch.equal(weights(model), start)
    assert all(p.grad is None for p in model.parameters())


def test_with_a_loader_and_a_schedule(make: Make) -> None:
    loop = Loop(device="cpu", precision="fp32", quiet=True)
    model, optimizer, loader = make()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    model, optimizer, loader, scheduler = loop.prepare(model, optimizer, loader, scheduler)
    for _ in loop.epochs(2):
        for batch in loader:
            loop.log(loss=loop.step_in_parts(batch, lambda part: nn.functional.mse_loss(model(part[0]), part[1])))
    assert loop.optimizer_steps == 22
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-2 * 0.9**22)


@pytest.mark.parametrize(
    ("message", "use"),
    [
        (r"with Loop\(accumulate=2\); it cuts batches up itself", lambda: in_parts(Greedy(9), accumulate=2)),
        (
            r"`1` is a BatchNorm1d in training mode, whose result depends on what is in the batch with a sample",
            lambda: in_parts(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))),
        ),
    ],
)
def test_refused(message: str, use: Callable[[], tuple[Loop, nn.Module]]) -> None:
    loop, model = use()
    with pytest.raises(UsageError, match=rf"loop.step_in_parts\(...\): {message}"):
        loop.step_in_parts(torch.ones(4, 4), lambda part: model(part).mean())


def test_a_frozen_batchnorm_is_fine() -> None:
    loop, model = in_parts(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    model[1].eval()
    loop.step_in_parts(torch.ones(4, 4), lambda part: model(part).mean())


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"a": torch.ones(4, 1), "b": torch.ones(3)}, r"its tensors have first dimensions \[3, 4\]"),
        (["text"], "the batch holds no tensor"),
    ],
)
def test_batches_that_cannot_be_cut(batch: Any, message: str) -> None:
    loop, _ = in_parts(Greedy(9))
    with pytest.raises(UsageError, match=message):
        loop.step_in_parts(batch, lambda part: torch.ones(()))


def test_a_loss_of_many_numbers() -> None:
    loop, model = in_parts(Greedy(9))
    with pytest.raises(UsageError, match=r"loop.step_in_parts\(batch, compute_loss\): the loss has shape \(4, 1\)"):
        loop.step_in_parts(torch.ones(4, 4), model)
