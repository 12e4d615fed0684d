"""Means of what is logged."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flatout import Loop
from flatout.errors import UsageError
from flatout.loop import metrics as module
from flatout.loop.later import Later
from flatout.loop.metrics import Metrics
from flatout.loop.processes.distributed import Ranks

CPU = torch.device("cpu")


def means(*values: object, samples: int | None = None) -> float:
    metrics = Metrics(CPU, Ranks())
    for value in values:
        metrics.add("a", value, samples)
    return metrics.read()["a"]


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        (3, 3.0),
        (2.5, 2.5),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array([1.0, 2.0]), 1.5),
        (torch.tensor([True, False, True, True]), 0.75),
        (torch.tensor([1, 2, 4]), 7 / 3),
        (torch.tensor(2.0, dtype=torch.bfloat16), 2.0),
        (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 2.5),
    ],
)
def test_kinds_of_values(value: object, mean: float) -> None:
    assert means(value) == mean


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 100)), min_size=1, max_size=200))
def test_values_weigh_by_samples(values: list[tuple[float, int]]) -> None:
    metrics = Metrics(CPU, Ranks())
    for value, samples in values:
        metrics.add("a", value, samples)
    mean = math.fsum(v * n for v, n in values) / sum(n for _, n in values)
    assert metrics.read()["a"] == pytest.approx(mean, rel=1e-9, abs=1e-6)


def test_each_element_of_a_tensor_is_a_sample() -> None:
    """A batch of 3 and one of 1: accuracy over 4 samples, not the mean of two accuracies."""
    assert means(torch.tensor([True, True, True]), torch.tensor([False]), samples=None) == 0.75
    assert means(torch.tensor([1.0, 1.0]), torch.tensor([]), samples=8) == 1.0
    metrics = Metrics(CPU, Ranks())
    metrics.add("a", torch.tensor([5.0]), 0)  # a sample that was repeated for a rank without one
    metrics.add("a", torch.tensor([1.0]), 1)
    assert metrics.read() == {"a": 1.0}


def test_sums_are_in_double_precision() -> None:
    """A hundred thousand values of 0.1 beside a large one: float32 would have lost them."""
    metrics = Metrics(CPU, Ranks())
    metrics.add("a", torch.tensor(1e8), 1)
    for _ in range(100_000):
        metrics.add("a", 0.1, 1)
    assert metrics.read()["a"] == pytest.approx((1e8 + 1e4) / 100_001, rel=1e-10)


def test_reading_starts_anew() -> None:
    metrics = Metrics(CPU, Ranks())
    metrics.add("b", 1, 1)
    metrics.add("a", 2, 1)
    assert list(metrics.read()) == ["b", "a"]
    assert metrics.read() == {}


def test_training_and_evaluation_do_not_mix() -> None:
    metrics = Metrics(CPU, Ranks())
    metrics.add("loss", 1, 1)
    with pytest.raises(UsageError, match=r"loop.log\(loss=...\): holds values of training and of.*eval_loss"):
        metrics.add("loss", 1, 1, evaluating=True)
    metrics.read()
    metrics.add("loss", 1, 1, evaluating=True)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("0.5", "str"),
        (None, "NoneType"),
        ([1.0], "list"),
        (torch.tensor(1j), "Tensor of torch.complex64"),
        (2j, "complex"),
    ],
)
def test_what_has_no_mean(value: object, kind: str) -> None:
    with pytest.raises(UsageError, match=rf"loop.log\(a=...\): takes numbers and tensors of.*, not a {kind}"):
        means(value)


class Identity(torch.autograd.Function):
    """A node of the graph that can be watched."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def test_logging_a_loss_does_not_keep_its_graph() -> None:
    loop = Loop(device="cpu", quiet=True)
    activations = Identity.apply(torch.ones(4, requires_grad=True))
    node = weakref.ref(activations.grad_fn)
    loop.log(loss=activations.mean(), parts=activations)
    del activations
    gc.collect()
    assert node() is None
    assert loop.metrics() == {"loss": 1.0, "parts": 1.0}


def test_values_on_a_device_are_gathered_and_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a GPU's path that a CPU can take: nothing is read before it has arrived, and memory stays bounded."""
    arrived: list[bool] = []

    class Arrival:
        def query(self) -> bool:
            return bool(arrived)

        def synchronize(self) -> None:
            pass

    monkeypatch.setattr(module, "Later", lambda: Later(lambda stacked: (stacked.clone(), Arrival())))
    monkeypatch.setattr(module, "readable", lambda tensor: False)
    metrics = Metrics(CPU, Ranks())
    for i in range(150):
        metrics.add("a", torch.tensor(float(i)), 1)
    assert metrics._sums == {}
    arrived.append(True)
    metrics.add("a", torch.tensor(0.0), 1)
    assert metrics._sums["a"] == [sum(range(128)), 128.0]
    assert metrics.read()["a"] == pytest.approx(sum(range(150)) / 151)
