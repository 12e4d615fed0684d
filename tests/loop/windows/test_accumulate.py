"""The arithmetic of windows: exact in fractions, for any weights and ranks. And gradients against a large batch."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flatout import Loop
from flatout.loop.windows.accumulate import Window, window_length

Weights = list[list[int]]  # [micro-batch][rank]


def combined(
    weights: Weights, gradients: list[list[Fraction]], *, length: int, planned: list[bool], total: int | None
) -> tuple[Fraction, list[Fraction | None]]:
    """What ranks that average their gradients step with, and each rank's correction.

    A sum over ranks is asked by all ranks in the same order, so the k-th question of each is answered together.
    """
    ranks = len(weights[0])
    asked: list[list[Fraction]] = [[] for _ in range(ranks)]
    answers: list[Fraction] = []

    def run(rank: int) -> tuple[Fraction, Fraction | None]:
        questions = iter(range(100))

        def sum_over_ranks(value: Fraction) -> Fraction:
            asked[rank].append(Fraction(value))
            number = next(questions)
            return answers[number] if number < len(answers) else Fraction(1)

        window = Window(length, planned=total, ranks=ranks, sum_over_ranks=sum_over_ranks)
        scaled = [
            window.scale(Fraction(weights[i][rank]), planned=planned[i]) * gradients[i][rank]
            for i in range(len(weights))
        ]
        return sum(scaled, Fraction(0)), window.correction()

    for _ in range(3):  # first learn what is asked, then answer
        for rank in range(ranks):
            asked[rank].clear()
            run(rank)
        answers[:] = [sum(question) for question in zip(*asked)]
    results = [run(rank) for rank in range(ranks)]
    corrections = [correction for _, correction in results]
    divided_by = corrections[0] if corrections[0] is not None else 1
    return sum(total for total, _ in results) / ranks / divided_by, corrections


@st.composite
def windows(draw: st.DrawFn) -> tuple[Weights, list[list[Fraction]], int, list[bool], int | None]:
    length = draw(st.integers(1, 6))
    count = draw(st.integers(1, length))  # fewer: cut short
    ranks = draw(st.integers(1, 4))
    weights = draw(
        st.lists(st.lists(st.integers(0, 50), min_size=ranks, max_size=ranks), min_size=count, max_size=count)
    )
    numbers = st.fractions(min_value=-9, max_value=9, max_denominator=20)
    gradients = draw(st.lists(st.lists(numbers, min_size=ranks, max_size=ranks), min_size=count, max_size=count))
    planned = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    total = sum(map(sum, weights))
    # A plan is right about a full window that keeps to it. It says too much about one that is cut short or off plan.
    right = count == length and all(planned)
    plans = [None, max(total, 1) if right and total else draw(st.integers(1, 400))]
    plan = draw(st.sampled_from(plans)) if total or not right else None
    return weights, gradients, length, planned, plan


@given(windows())
def test_a_window_is_the_weighted_mean_exactly(
    case: tuple[Weights, list[list[Fraction]], int, list[bool], int],
) -> None:
    weights, gradients, length, planned, plan = case
    result, corrections = combined(weights, gradients, length=length, planned=planned, total=plan)
    total = sum(map(sum, weights))
    mean = sum(w * g for ws, gs in zip(weights, gradients) for w, g in zip(ws, gs)) / (total or 1)
    assert result == mean
    assert len(set(corrections)) == 1


@given(st.integers(1, 8), st.integers(1, 1000))
def test_equal_weights_need_no_correction(length: int, weight: int) -> None:
    window = Window(length)
    scales = [window.scale(weight, planned=False) for _ in range(length)]
    assert scales == [weight / (weight * length)] * length
    assert window.correction() is None


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_a_window_on_plan_needs_no_correction(weights: list[int]) -> None:
    window = Window(len(weights), planned=sum(weights))
    assert [window.scale(w) for w in weights] == [w / sum(weights) for w in weights]
    assert window.correction() is None


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=8), st.integers(1, 8))
def test_floats(weights: list[float], longer: int) -> None:
    window = Window(len(weights) + longer - 1)
    scales = [window.scale(w, planned=False) for w in weights]
    correction = window.correction()
    assert sum(scales) / (1 if correction is None else correction) == pytest.approx(1, rel=1e-12)


def test_a_single_micro_batch_asks_the_ranks_once() -> None:
    asked = []

    def sum_over_ranks(value: int) -> int:
        asked.append(value)
        return 2 * value

    window = Window(1, ranks=2, sum_over_ranks=sum_over_ranks)
    assert window.scale(7, planned=False) == 1
    assert window.correction() is None
    assert asked == [7]


def test_tensors_are_weighed_and_not_read() -> None:
    weights = [torch.tensor(3), torch.tensor(40), torch.tensor(0)]
    window = Window(3)
    scales = [window.scale(w, planned=False) for w in weights]
    correction = window.correction()
    assert torch.allclose(torch.stack(scales) / correction, torch.tensor([3 / 43, 40 / 43, 0]))
    on_meta = Window(2)  # a device that has no values: reading one raises
    for _ in range(2):
        on_meta.scale(torch.ones((), device="meta"), planned=False)
    assert on_meta.correction().device.type == "meta"


@pytest.mark.parametrize("zero", [0, 0.0, Fraction(0), torch.tensor(0), torch.tensor(0.0)])
def test_nothing_that_weighs_divides_by_zero(zero: object) -> None:
    window = Window(2)
    assert [float(window.scale(zero, planned=False)) for _ in range(2)] == [0, 0]
    assert float(window.correction()) == 1 if window.correction() is not None else True


@given(st.integers(1, 8), st.integers(0, 20), st.integers(1, 21))
def test_a_window_ends_with_the_epoch(accumulate: int, batch: int, batches: int) -> None:
    if batch >= batches:
        return
    length = window_length(accumulate, batch, batches)
    assert 1 <= length <= accumulate
    assert length == accumulate or batch + length == batches
    assert window_length(accumulate, batch, batches, carry=True) == accumulate
    assert window_length(accumulate, batch, None) == accumulate


# --- gradients of a real model ---------------------------------------------------------------------------------------


class Recorder(torch.optim.SGD):
    """Keeps the gradients that each step saw."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), lr=0.0)
        self.seen: list[torch.Tensor] = []

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        gradients = [p.grad.flatten() for group in self.param_groups for p in group["params"] if p.grad is not None]
        self.seen.append(torch.cat(gradients).clone())


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def gradient(model: nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def error(seen: torch.Tensor, truth: torch.Tensor) -> float:
    return float((seen - truth).norm() / truth.norm())


@pytest.mark.parametrize("sizes", [[4, 4, 4], [1, 7, 2, 5], [9, 1], [3]])
def test_unequal_micro_batches_are_one_large_batch(sizes: list[int]) -> None:
    x, y = torch.randn(sum(sizes), 6), torch.randint(3, (sum(sizes),))
    model = small_model()
    loop = Loop(device="cpu", accumulate=len(sizes), quiet=True)
    optimizer = Recorder(model)
    model, optimizer = loop.prepare(model, optimizer)
    for part_x, part_y in zip(x.split(sizes), y.split(sizes)):
        with loop.step(samples=len(part_x)):
            loop.backward(nn.functional.cross_entropy(model(part_x), part_y))
    assert len(optimizer.seen) == 1
    assert error(optimizer.seen[0], gradient(model, nn.functional.cross_entropy(model(x), y))) < 1e-6


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_three_and_forty_tokens(reduction: str, as_tensor: bool) -> None:
    """Texts of 3 and 40 tokens: the mean of the two means is far from the mean over the 43 tokens."""
    x, y = torch.randn(2, 40, 6), torch.randint(3, (2, 40))
    y[0, 3:] = -100
    model = small_model()
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    optimizer = Recorder(model)
    model, optimizer = loop.prepare(model, optimizer)
    losses = []
    for text, labels in zip(x, y):
        tokens = (labels != -100).sum()
        with loop.step(samples=1):
            loss = nn.functional.cross_entropy(model(text), labels, reduction=reduction)
            losses.append(loss / tokens if reduction == "sum" else loss)
            loop.backward(loss, weight=tokens if as_tensor else int(tokens), reduction=reduction)
    truth = gradient(model, nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()))
    assert error(optimizer.seen[0], truth) < 1e-6
    again = [nn.functional.cross_entropy(model(text), labels) for text, labels in zip(x, y)]
    assert error(gradient(model, sum(again) / 2), truth) > 0.2  # the trap is there


def test_the_last_window_has_its_own_weight() -> None:
    """5 micro-batches with accumulate=4: the fifth makes up a window alone."""
    x, y = torch.randn(18, 6), torch.randint(3, (18,))
    model = small_model()
    loop = Loop(device="cpu", accumulate=4, quiet=True)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    optimizer = Recorder(model)
    model, optimizer, loader = loop.prepare(model, optimizer, loader)
    for part_x, part_y in loader:
        with loop.step():
            loop.backward(nn.functional.cross_entropy(model(part_x), part_y))
    assert len(optimizer.seen) == 2
    for seen, part in zip(optimizer.seen, (slice(0, 16), slice(16, 18))):
        assert error(seen, gradient(model, nn.functional.cross_entropy(model(x[part]), y[part]))) < 1e-6


def test_weights_in_tensors_keep_the_digits_of_a_loss_in_float64() -> None:
    model = nn.Linear(4, 1, bias=False).double()
    inputs, before = torch.randn(10, 4, dtype=torch.float64), model.weight.detach().clone()
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in loop.epochs(1):
        for part in (inputs[:3], inputs[3:]):
            with loop.step(samples=len(part)):
                loop.backward(model(part).sum(), weight=torch.tensor(len(part)), reduction="sum")
    torch.testing.assert_close(model.weight, before - inputs.mean(0), rtol=0, atol=1e-14)
