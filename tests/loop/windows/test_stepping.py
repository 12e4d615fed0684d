"""Windows, steps and schedules of a real training, against the loop one would write by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from flatout import Loop
from flatout.errors import TrainingError, UsageError
from flatout.loop.windows.losses import Where
from flatout.loop.windows.stepping import bring_state

Make = Callable[..., tuple[nn.Module, torch.optim.Optimizer, DataLoader]]
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def plain(make: Make, precision: str, accumulate: int, clip: float | None, epochs: int = 3) -> torch.Tensor:
    """The loop as an expert writes it."""
    model, optimizer, loader = make()
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            first = i // accumulate * accumulate
            held = min(accumulate, len(loader) - first)
            with torch.autocast("cpu", dtype=LOW.get(precision, torch.bfloat16), enabled=precision in LOW):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss / held).backward()
            if i + 1 == first + held:
                if clip is not None:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    return weights(model)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("accumulate", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_bit_equal_with_the_plain_loop(make: Make, precision: str, accumulate: int, clip: float | None) -> None:
    loop = Loop(device="cpu", precision=precision, accumulate=accumulate, clip_norm=clip, quiet=True)
    model, _optimizer, loader = loop.prepare(*make())
    for _ in loop.epochs(3):
        for x, y in loader:
            with loop.step():
                loop.backward(nn.functional.mse_loss(model(x), y))
    assert torch.equal(weights(model), plain(make, precision, accumulate, clip))


class Spy(torch.optim.SGD):
    """Notes the total of the gradients that each step sees."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), lr=0.01)
        self.seen: list[list[torch.Tensor]] = []

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.seen.append([p.grad.clone() for p in self.param_groups[0]["params"] if p.grad is not None])


def one_weight() -> nn.Module:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model


def numbers(*values: float, batch_size: int = 1) -> DataLoader:
    """Batches whose mean is the gradient of `one_weight` for the loss `model(x).mean()`."""
    return DataLoader(TensorDataset(torch.tensor(values, dtype=torch.float32).reshape(-1, 1)), batch_size=batch_size)


def run(loop: Loop, model: nn.Module, loader: Any, epochs: int = 1, skip: tuple[int, ...] = (), stop: int = 99) -> None:
    for _ in loop.epochs(epochs):
        for i, (x,) in enumerate(loader):
            if i in skip:
                continue
            if i == stop:
                break
            with loop.step():
                loop.backward(model(x).mean())


def gradients(optimizer: Spy) -> list[float]:
    return [round(float(step[0]), 5) for step in optimizer.seen]


@pytest.mark.parametrize(
    ("last_window", "seen"),
    [
        ("step", [2.0, 4.5, 2.0, 4.5]),  # 1 2 3 | 4 5 | 1 2 3 | 4 5
        ("carry", [2.0, 3.33333, 3.0]),  # 1 2 3 | 4 5 1 | 2 3 4 | (5 waits)
        ("drop", [2.0, 2.0]),
    ],
)
def test_the_last_window(last_window: str, seen: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(device="cpu", accumulate=3, last_window=last_window)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 2, 3, 4, 5))
    run(loop, model, loader, epochs=2)
    assert gradients(optimizer) == seen
    said = capsys.readouterr().err
    assert said.count("last window holds 2 of 3") == (last_window != "carry")


def test_a_short_last_batch_weighs_less() -> None:
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 1, 1, 9, batch_size=3))
    run(loop, model, loader)
    assert gradients(optimizer) == [3.0]  # (1 + 1 + 1 + 9) / 4, and not (1 + 9) / 2


@pytest.mark.parametrize(
    ("skip", "seen"),
    [((1,), [2.66667, 5.0]), ((4,), [2.0, 4.0]), ((3, 4), [2.0]), ((2, 3, 4), [1.5])],
)
def test_batches_that_are_skipped(skip: tuple[int, ...], seen: list[float]) -> None:
    """1 2 3 4 5: a window still ends with the epoch, and its mean is that of what it holds."""
    loop = Loop(device="cpu", accumulate=3, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 2, 3, 4, 5))
    run(loop, model, loader, skip=skip)
    assert gradients(optimizer) == seen


def test_a_skipped_batch_of_another_size() -> None:
    """The plan says 3 + 3; the window holds 3 + 1."""
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 1, 1, 5, 5, 5, 9, batch_size=3))
    run(loop, model, loader, skip=(1,))
    assert gradients(optimizer) == [3.0]


def test_two_steps_a_batch() -> None:
    """A window holds steps, and its mean is that of what it really holds: here 3 + 3 samples, 3 + 1, 1."""
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 1, 1, 5, 5, 5, 9, batch_size=3))
    for i, (x,) in enumerate(loader):
        for _ in range(1 if i == 1 else 2):
            with loop.step():
                loop.backward(model(x).mean())
    assert gradients(optimizer) == [1.0, 6.0, 9.0]


def test_a_loop_that_is_left_by_break() -> None:
    loop = Loop(device="cpu", accumulate=3, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 2, 3, 4, 5))
    run(loop, model, loader, epochs=2, stop=4)
    assert gradients(optimizer) == [2.0, 4.0, 2.0, 4.0]


def test_break_without_epochs() -> None:
    loop = Loop(device="cpu", accumulate=3, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 2, 3, 4, 5))
    for _ in range(2):
        for i, (x,) in enumerate(loader):
            if i == 2:
                break
            with loop.step():
                loop.backward(model(x).mean())
    assert gradients(optimizer) == [1.5]  # the first pass's rest is stepped when the second starts to step


class Stream(IterableDataset):
    def __init__(self, *values: float) -> None:
        self.values = values

    def __iter__(self) -> Iterator[torch.Tensor]:
        return ((torch.tensor([float(value)]),) for value in self.values)  # type: ignore[misc]


@pytest.mark.parametrize(("last_window", "seen"), [("step", [2.0, 4.5] * 2), ("drop", [2.0, 2.0])])
def test_a_loader_without_length(last_window: str, seen: list[float]) -> None:
    loop = Loop(device="cpu", accumulate=3, last_window=last_window, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, DataLoader(Stream(1, 2, 3, 4, 5), batch_size=1))
    after = []
    for _ in loop.epochs(2):
        for (x,) in loader:
            with loop.step():
                loop.backward(model(x).mean())
        after.append(len(optimizer.seen))  # stepped when the pass has ended, not later
    assert gradients(optimizer) == seen
    assert after == [len(seen) // 2, len(seen)]


def test_carry_counts_over_epochs_bit_equal(make: Make) -> None:
    model, optimizer, loader = make()
    everything = [batch for _ in range(4) for batch in loader]
    for i in range(0, len(everything) // 3 * 3, 3):
        for x, y in everything[i : i + 3]:
            (nn.functional.mse_loss(model(x), y) / 3).backward()
        optimizer.step()
        optimizer.zero_grad()
    loop = Loop(device="cpu", accumulate=3, last_window="carry", quiet=True)
    ours, _our_optimizer, our_loader = loop.prepare(*make())
    for _ in loop.epochs(4):
        for x, y in our_loader:
            with loop.step():
                loop.backward(nn.functional.mse_loss(ours(x), y))
    assert loop.optimizer_steps == len(everything) // 3
    assert torch.equal(weights(ours), weights(model))


def start_scale(loop: Loop, scale: float) -> None:
    """A loss scale that does not overflow at once."""
    if loop.precision.mode == "fp16":
        loop.precision.scaler.load_state_dict({**loop.precision.scaler.state_dict(), "scale": float(scale)})


# --- several optimizers ----------------------------------------------------------------------------------------------


def gan() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(0)
    generator, critic = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    real = torch.randn(24, 8)
    return (
        generator,
        critic,
        torch.optim.Adam(generator.parameters(), lr=1e-2),
        torch.optim.Adam(critic.parameters(), lr=1e-2),
        real,
    )


def critic_loss(generator: nn.Module, critic: nn.Module, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    return (
        nn.functional.softplus(critic(generator(noise).detach())).mean() + nn.functional.softplus(-critic(real)).mean()
    )


def generator_loss(generator: nn.Module, critic: nn.Module, noise: torch.Tensor) -> torch.Tensor:
    return nn.functional.softplus(-critic(generator(noise))).mean()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_gan(precision: str, accumulate: int) -> None:
    """What the generator's loss leaves in the critic is no part of the critic's steps, also in mid-window."""
    noise = torch.randn(8, 24, 4, generator=torch.Generator().manual_seed(5))

    generator, critic, of_generator, of_critic, real = gan()
    loop = Loop(device="cpu", precision=precision, accumulate=accumulate, quiet=True)
    start_scale(loop, 256)
    generator, critic, of_generator, of_critic = loop.prepare(generator, critic, of_generator, of_critic)
    for i in range(6):
        with loop.step(of_critic, samples=24):
            loop.backward(critic_loss(generator, critic, real, noise[i]))
        with loop.step(of_generator, samples=24):
            loop.backward(generator_loss(generator, critic, noise[i]))
    assert loop.optimizer_steps == 12 // accumulate

    plain_generator, plain_critic, of_generator, of_critic, real = gan()
    scaler = torch.amp.GradScaler("cpu", init_scale=256, enabled=precision == "fp16")
    kept: dict[str, list[torch.Tensor]] = {"critic": [], "generator": []}
    for i in range(6):
        for name, model, optimizer in (
            ("critic", plain_critic, of_critic),
            ("generator", plain_generator, of_generator),
        ):
            with torch.autocast("cpu", dtype=torch.float16, enabled=precision == "fp16"):
                loss = (
                    critic_loss(plain_generator, plain_critic, real, noise[i])
                    if name == "critic"
                    else generator_loss(plain_generator, plain_critic, noise[i])
                )
            found = torch.autograd.grad(scaler.scale(loss / accumulate), list(model.parameters()))
            kept[name] = [a + b for a, b in zip(kept[name], found)] if kept[name] else list(found)
            if (i + 1) % accumulate == 0:
                for p, g in zip(model.parameters(), kept[name]):
                    p.grad = g
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                kept[name] = []
    assert torch.equal(weights(critic), weights(plain_critic))
    assert torch.equal(weights(generator), weights(plain_generator))


def test_another_optimizers_change_of_the_loss_scale_reaches_open_windows() -> None:
    """Two windows out of step: the scale grows while one is open. Its gradients are brought to the new scale."""
    loop = Loop(device="cpu", precision="fp16", accumulate=2, quiet=True)
    loop.precision.scaler.set_growth_interval(1)
    start_scale(loop, 256)
    a, b = one_weight(), one_weight()
    of_a, of_b = torch.optim.SGD(a.parameters(), lr=1.0), torch.optim.SGD(b.parameters(), lr=1.0)
    a, b, of_a, of_b = loop.prepare(a, b, of_a, of_b)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: float) -> None:
        with loop.step(optimizer, samples=1):
            loop.backward(model(torch.tensor([[x]])).sum())

    step(a, of_a, 1.0)
    step(b, of_b, 2.0)
    step(b, of_b, 4.0)  # b's window ends: the scale doubles
    step(a, of_a, 2.0)
    assert loop.loss_scale == 256 * 4
    assert b.weight.item() == 1 - 3.0
    assert a.weight.item() == 1 - 1.5


def test_gradients_from_elsewhere_are_not_stepped_with() -> None:
    loop = Loop(device="cpu", quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer = loop.prepare(model, optimizer)
    model(torch.full((1, 1), 100.0)).sum().backward()
    with loop.step():
        loop.backward(model(torch.ones(1, 1)).sum())
    assert gradients(optimizer) == [1.0]


# --- what goes wrong inside a step -----------------------------------------------------------------------------------


def test_an_exception_gives_the_window_up() -> None:
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, 2, 3, 4))
    for i, (x,) in enumerate(loader):
        try:
            with loop.step():
                loop.backward(model(x).mean())
                if i == 1:
                    raise KeyError("a batch that is bad")
        except KeyError:
            assert model.weight.grad is None
            assert not torch.is_autocast_enabled("cpu")
    assert gradients(optimizer) == [3.5]


def test_a_loss_that_is_nan_leaves_no_trace() -> None:
    loop = Loop(device="cpu", quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer, loader = loop.prepare(model, optimizer, numbers(1, float("nan"), 3))
    with pytest.raises(TrainingError, match=r"the loss is NaN in epoch 0, batch 1 \(step 2\); try a lower"):
        run(loop, model, loader)
    assert gradients(optimizer) == [1.0]
    assert model.weight.grad is None


def test_a_nan_may_be_ignored() -> None:
    loop = Loop(device="cpu", nan="ignore", quiet=True)
    model = one_weight()
    model, optimizer, loader = loop.prepare(model, Spy(model), numbers(float("nan")))
    run(loop, model, loader)
    assert len(optimizer.seen) == 1


def test_parameters_without_a_gradient_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(device="cpu")
    model = nn.ModuleDict({"used": one_weight(), "unused": nn.Linear(2, 2)})
    model, _optimizer = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        with loop.step(samples=1):
            loop.backward(model["used"](torch.ones(1, 1)).sum())
    said = capsys.readouterr().err
    assert said.count("2 parameters got no gradient in the first step") == 1
    assert "unused.weight, unused.bias" in said


def test_parameters_that_the_model_has_given_away_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A new head after `prepare`: the optimizer still has the old one."""
    loop = Loop(device="cpu")
    model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 3))
    model, _optimizer = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model[1] = nn.Linear(2, 4)
    with loop.step(samples=1):
        loop.backward(model(torch.ones(1, 1)).sum())
    assert "train in it: one of shape (3, 2) that no prepared model holds any more" in capsys.readouterr().err


def test_two_losses_of_one_step_share_its_weight() -> None:
    loop = Loop(device="cpu", accumulate=2, quiet=True)
    model = one_weight()
    optimizer = Spy(model)
    model, optimizer = loop.prepare(model, optimizer)
    x = torch.ones(1, 1)
    for n in (1, 3):
        with loop.step(samples=n):
            loop.backward(model(x).sum() * n)
            loop.backward(model(x).sum() * 10)
    assert gradients(optimizer) == [(1 * 11 + 3 * 13) / 4]
    with loop.step(samples=1):
        loop.backward(model(x).sum(), weight=2)
        with pytest.raises(UsageError, match="a second loss in the same step"):
            loop.backward(model(x).sum(), weight=3)


# --- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "steps"), [("step", 8), ("epoch", 2), ("manual", 0)])
def test_a_schedule_steps_as_asked(make: Make, schedule: str, steps: int) -> None:
    loop = Loop(device="cpu", accumulate=3, schedule=schedule, quiet=True)
    model, optimizer, loader = make()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model, optimizer, loader, scheduler = loop.prepare(model, optimizer, loader, scheduler)
    for _ in loop.epochs(2):
        for x, y in loader:
            with loop.step():
                loop.backward(nn.functional.mse_loss(model(x), y))
    assert loop.optimizer_steps == 8  # 11 batches, 3 at a time: 4 an epoch
    assert optimizer.param_groups[0]["lr"] == 1e-2 * 0.5**steps


@pytest.mark.parametrize("fused", [None, True])
def test_a_skipped_step_is_no_step_of_the_schedule(fused: bool | None) -> None:
    """Overflow in fp16. A fused optimizer is called all the same, and skips inside of its kernel."""
    loop = Loop(device="cpu", precision="fp16", quiet=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model, optimizer, scheduler = loop.prepare(model, optimizer, scheduler, fused=fused)
    before = weights(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor, steps, skipped in ((1e38, 0, 1), (1.0, 1, 1), (1e38, 1, 2), (1.0, 2, 2)):
            with loop.step(samples=2):
                loop.backward(model(torch.ones(2, 4)).float().mean() * factor)
            assert (loop.optimizer_steps, loop.skipped_steps) == (steps, skipped)
            assert torch.equal(weights(model), before) == (steps == 0)
            assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**steps
    assert loop.loss_scale == 65536 / 4


def test_overflow_again_and_again_recommends_bf16(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(device="cpu", precision="fp16")
    model = nn.Linear(4, 1)
    model, _optimizer = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for count in range(1, 30):
        with loop.step(samples=1):
            loop.backward(model(torch.ones(1, 4)).float().mean() * 1e38)
        assert capsys.readouterr().err.count("bf16 has the range") == (count == 11)
    assert loop.skipped_steps == 29


def test_an_optimizer_without_gradients_in_fp16() -> None:
    """GradScaler refuses it; a plain optimizer does nothing."""
    loop = Loop(device="cpu", precision="fp16", quiet=True)
    start_scale(loop, 256)
    a, b = one_weight(), one_weight()
    a, b, _of_a, _of_b = loop.prepare(
        a, b, torch.optim.SGD(a.parameters(), lr=1.0), torch.optim.SGD(b.parameters(), lr=1.0)
    )
    with loop.step(samples=1):
        loop.backward(a(torch.ones(1, 1)).sum())
    assert (a.weight.item(), b.weight.item(), loop.optimizer_steps) == (0, 1, 1)


@pytest.mark.parametrize("schedule", ["step", "epoch"])
def test_a_schedule_that_needs_a_metric_is_refused(schedule: str) -> None:
    optimizer = torch.optim.SGD(one_weight().parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(UsageError, match=rf"ReduceLROnPlateau\): its step\(\) needs metrics.*instead of '{schedule}'"):
        Loop(device="cpu", schedule=schedule, quiet=True).prepare(scheduler)
    assert Loop(device="cpu", schedule="manual", quiet=True).prepare(scheduler) is scheduler


def test_lbfgs_is_refused() -> None:
    with pytest.raises(UsageError, match=r"loop.prepare\(LBFGS\): its step\(\) needs a closure"):
        Loop(device="cpu", quiet=True).prepare(torch.optim.LBFGS(one_weight().parameters()))


def test_state_that_was_loaded_before_prepare_moves_along() -> None:
    """To where the parameters are. What is there already stays as it is."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    held = {id(v) for state in optimizer.state.values() for v in state.values()}
    bring_state(optimizer)
    assert held == {id(v) for state in optimizer.state.values() for v in state.values()}

    parameter = nn.Parameter(torch.ones(2, device="meta"))
    optimizer = torch.optim.Adam([parameter])
    optimizer.state[parameter] = {"step": torch.ones(()), "exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2)}
    bring_state(optimizer)
    devices = {name: value.device.type for name, value in optimizer.state[parameter].items()}
    assert devices == {"step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta"}


@pytest.mark.parametrize("when", ["end of the body", "middle"])
def test_a_schedule_by_epochs_is_resumed_where_it_was(make: Make, tmp_path: Path, when: str) -> None:
    """A save at the end of an epoch's body comes before the schedule's step: a resume makes up for it."""

    def run(stop: int | None) -> tuple[torch.Tensor, list[float]]:
        loop = Loop(device="cpu", schedule="epoch", quiet=True)
        model, optimizer, loader = make()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        model, optimizer, loader, _ = loop.prepare(model, optimizer, loader, scheduler)
        loop.resume(tmp_path)
        rates = []
        for epoch in loop.epochs(4):
            rates.append(optimizer.param_groups[0]["lr"])
            for i, (x, y) in enumerate(loader):
                with loop.step():
                    loop.backward(nn.functional.mse_loss(model(x), y))
                if stop is not None and when == "middle" and (epoch, i) == (stop, 5):
                    loop.save(tmp_path)
                if stop is not None and when == "middle" and (epoch, i) == (stop, 6):
                    return weights(model), rates
            if stop == epoch:
                loop.save(tmp_path)
                break
        return weights(model), rates

    whole, all_rates = run(None)
    run(1)
    resumed, rates = run(None)
    assert all_rates == [1e-2, 5e-3, 2.5e-3, 1.25e-3]
    assert rates == all_rates[2 if when == "end of the body" else 1 :]
    assert torch.equal(resumed, whole)


def test_counts_are_resumed(tmp_path: Path) -> None:
    def prepared() -> tuple[Loop, nn.Module]:
        loop = Loop(device="cpu", precision="fp16", quiet=True)
        model = nn.Linear(4, 1)
        model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        return loop, model

    loop, model = prepared()

    def compute(part: dict[str, Any]) -> torch.Tensor:
        if len(part["x"]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return model(part["x"]).float().mean() * part["gain"]

    for gain in (1e38, 1.0):
        loop.step_in_parts({"x": torch.ones(4, 4), "gain": gain}, compute)
    loop.save(tmp_path)
    again, _ = prepared()
    again.resume(tmp_path)
    assert (again.skipped_steps, again.optimizer_steps, again.loss_scale) == (1, 1, 32768)
    assert again._stepper.part_size == 2


def test_a_loss_that_was_nan_is_not_saved(tmp_path: Path) -> None:
    """On a GPU it may not have been noticed yet: saving looks at all losses."""
    loop = Loop(device="cpu", quiet=True)
    model = one_weight()
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert loop._stepper.nan_watch is not None
    loop._stepper.nan_watch.see_later(torch.tensor(float("nan")), Where(0, 3, 4))
    with pytest.raises(TrainingError, match=r"NaN in epoch 0, batch 3 \(step 4\)"):
        loop.save(tmp_path)
    assert list(tmp_path.iterdir()) == []
