"""Alternatives tried on copies: the ratio is that of the times, and what was there stays as it was."""

from __future__ import annotations

import time

import pytest
import torch

from flatout.watch import trials
from flatout.watch.trials import goes_one_by_one, optimizer_trial, ratio


def test_the_ratio_is_that_of_the_times() -> None:
    found = ratio(lambda: time.sleep(0.01), lambda: time.sleep(0.005))
    assert found is not None
    assert found.low <= found.middle <= found.high
    assert found.middle == pytest.approx(0.5, abs=0.2)


def parameters(count: int) -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(torch.ones(4)) for _ in range(count)]
    for one in made:
        one.grad = torch.ones(4)
    return made


@pytest.mark.parametrize(("options", "alone"), [({}, True), ({"foreach": True}, False), ({"fused": True}, False)])
def test_one_by_one_is_what_a_cpu_does_unless_told_otherwise(options: dict[str, bool], alone: bool) -> None:
    optimizer = torch.optim.Adam(parameters(2), **options)  # type: ignore[arg-type]
    assert goes_one_by_one(optimizer) == alone
    if not alone:
        assert optimizer_trial(optimizer) is None


def test_copies_are_tried_and_the_parameters_stay() -> None:
    made = parameters(200)
    optimizer = torch.optim.Adam(made, lr=0.1)
    found = optimizer_trial(optimizer)
    assert found is not None
    assert found.option in ("fused", "foreach")
    assert found.ratio.high < 0.9  # 200 small tensors: measured 0.1 to 0.3
    assert all(torch.equal(one, torch.ones(4)) for one in made)
    assert not optimizer.state


def test_parameters_that_would_take_much_memory_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = torch.optim.Adam(parameters(4))
    monkeypatch.setattr(trials, "MOST_BYTES", 4 * 4 * 4 - 1)
    assert optimizer_trial(optimizer) is None


def test_an_optimizer_of_the_scripts_own_is_left_alone() -> None:
    class Own(torch.optim.SGD):
        pass

    assert optimizer_trial(Own(parameters(2), lr=0.1)) is None
