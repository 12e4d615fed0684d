"""The values lane: what is carried, what is forgotten, what is invented."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.virtual import invented, values

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

pytestmark = pytest.mark.usefixtures("machine")


_LOOPS_END: dict[str, Callable[[torch.Tensor], bool]] = {
    "small": lambda value: value.item() < 1e-6,
    "large": lambda value: value.item() > 1e6,
    "true": lambda value: bool(value > 0),
    "false": lambda value: not bool(value < 0),
}


def known(tensor: torch.Tensor) -> torch.Tensor:
    content = values.real(tensor)
    assert content is not None
    return content


def unknown(*size: int) -> torch.Tensor:
    """A float tensor on the GPU that is too large to be carried."""
    return torch.randn(*(size or (300, 300)), device="cuda")


def test_lengths_are_true_through_arithmetic_and_reductions() -> None:
    lengths = torch.tensor([7, 120, 33]).cuda()
    assert lengths.max().item() == 120
    assert (lengths - 1).sum().item() == 157
    x = torch.zeros(3, 512, 8, device="cuda")
    assert x[:, : int(lengths.max())].shape == (3, 120, 8)


def test_a_mask_selects_as_many_as_it_says() -> None:
    mask = torch.rand(3, 512) > 0.15
    x = unknown(3, 512, 64)
    assert x[mask.cuda()].shape == (int(mask.sum()), 64)
    assert mask.cuda().nonzero().shape == mask.nonzero().shape


def test_views_and_in_place_writes_see_each_other() -> None:
    flags = torch.zeros(8, dtype=torch.bool, device="cuda")
    flags[2:4] = True
    assert known(flags).tolist() == [False, False, True, True, False, False, False, False]


def test_what_meets_something_unknown_becomes_unknown() -> None:
    total = torch.zeros((), device="cuda")
    assert values.real(total) is not None
    total += unknown().sum()
    assert values.real(total) is None


def test_overwriting_the_whole_makes_it_known_again() -> None:
    counter = unknown(4)[:4].clone()
    values.forget(counter)
    counter.fill_(3.0)
    assert known(counter).tolist() == [3.0] * 4


def test_invented_floats_are_finite() -> None:
    x = unknown()
    assert bool(torch.isfinite(x).all())
    assert not bool(torch.isnan(x).any())
    assert not bool(torch.isinf(x.sum()))


def test_random_numbers_of_the_gpu_leave_the_cpus_alone() -> None:
    torch.manual_seed(0)
    expected = torch.randperm(5).tolist()
    torch.manual_seed(0)
    torch.randn(100, device="cuda")
    torch.nn.functional.dropout(torch.randn(4, device="cuda"), 0.5, True)
    assert torch.randperm(5).tolist() == expected


def test_a_loop_on_random_numbers_ends() -> None:
    for _ in range(10_000):
        if (torch.rand(1, device="cuda") < 0.1).all():
            return
    raise AssertionError("small random tensors are not really random")


@pytest.mark.parametrize("until", ["small", "large", "true", "false"])
def test_a_loop_on_invented_values_ends(until: str) -> None:
    for _ in range(2000):
        value = unknown().sum()
        if _LOOPS_END[until](value):
            return
    raise AssertionError("the loop never ended")


def test_a_loss_falls_slowly(machine: Machine) -> None:
    losses = []
    for step in range(5):
        machine.step = step
        losses.append(unknown().mean().item())
    machine.step = 0
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] > losses[0] / 2


def test_indices_that_are_not_known_stay_in_their_range() -> None:
    best = unknown(64, 1000).argmax(1)
    assert 0 <= best[0].item() < 1000
    host = best.cpu()
    assert host.dtype is torch.int64
    assert int(host.min()) >= 0
    assert int(host.max()) < 1000


def test_probabilities_that_are_not_known_sum_to_one() -> None:
    host = unknown(64, 100).softmax(1).cpu()
    assert torch.allclose(host.sum(1), torch.ones(64), atol=1e-5)


def test_an_assumed_value_is_used(machine: Machine) -> None:
    machine.assume["float"] = 0.25
    machine.assume["mask"] = 0.1
    try:
        x = unknown()
        assert x.sum().item() == 0.25
        assert x[x > 0].shape == (9000,)
    finally:
        machine.assume.clear()


def test_an_optimizer_step_is_never_skipped_by_the_scaler() -> None:
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(8, 64, device="cuda")).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert len(optimizer.state) == 2
    assert scaler.get_scale() == 65536.0
    assert optimizer.state[model.weight]["step"].item() == 3


integers = st.lists(st.integers(-50, 50), min_size=1, max_size=12)


@settings(max_examples=40)
@given(integers, st.sampled_from(["sum", "cumsum", "sort", "unique", "flip", "ne", "bincount", "where", "gather"]))
def test_integers_come_out_as_on_the_cpu(content: list[int], operation: str) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return {
            "sum": lambda: x.sum(),
            "cumsum": lambda: x.cumsum(0),
            "sort": lambda: x.sort()[0],
            "unique": lambda: torch.unique(x),
            "flip": lambda: x.flip(0),
            "ne": lambda: x != x[0],
            "bincount": lambda: torch.bincount(x.abs()),
            "where": lambda: torch.where(x > 0, x, -x),
            "gather": lambda: x.gather(0, x.argsort()),
        }[operation]()

    host = torch.tensor(content)
    expected = run(host)
    got = run(host.cuda())
    assert got.shape == expected.shape
    assert got.dtype is expected.dtype
    assert torch.equal(got.cpu(), expected)


def test_the_same_invented_tensor_twice() -> None:
    x = unknown()
    assert torch.equal(invented.tensor_like(x), invented.tensor_like(x))


def test_nothing_is_within_a_tolerance_yet() -> None:
    """An optimizer that asks whether it has converged goes on, and keeps what it would keep."""
    gradient = unknown().flatten()
    assert not bool(gradient.abs().max() <= 1e-7)
    assert bool(gradient.dot(gradient) > 1e-10)
    assert not bool(gradient.dot(gradient) > -1e-9)
    assert bool(gradient.norm() < 1.0)


def test_lbfgs_runs_all_its_iterations() -> None:
    model = torch.nn.Linear(300, 300).cuda()  # too large to be carried: what it compares is not known
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=20)
    calls = []

    def closure() -> torch.Tensor:
        calls.append(1)
        optimizer.zero_grad()
        loss = model(unknown()).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert len(calls) == 20
    assert len(optimizer.state[model.weight]["old_dirs"]) == 19


def test_nothing_larger_than_is_kept_is_computed_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    # The gradient of a mean is one number, expanded: 16 GiB here.
    one = torch.ones((), device="cuda").expand(1 << 16, 1 << 16)
    column = torch.arange(1 << 16, device="cuda").unsqueeze(1)
    computed: list[str] = []
    monkeypatch.setattr(values, "_run_for_real", lambda op, *rest: computed.append(op.name))
    _ = -one, one / 2.0, column == column.squeeze(1)
    assert computed == []
    _ = column + 1
    assert computed == ["aten::add.Tensor"]
