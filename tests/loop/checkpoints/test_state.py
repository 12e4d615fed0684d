"""The state of a training: all of it is saved, all of it comes back, and nothing that does not fit gets in."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from flatout import Loop
from flatout.errors import CheckpointError, UsageError

SAMPLES, BATCH, ACCUMULATE, EPOCHS = 23, 3, 3, 2  # 8 batches an epoch, the last of 2; windows of 3, 3 and 2
BATCHES = 8


class Noisy(Dataset[Any]):
    """Samples with a random augmentation, from PyTorch's and from Python's stream."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.full((4,), i / SAMPLES) + torch.randn(4) * 0.1 + random.random() * 0.1
        return x, x.sum().view(1) * 0.5


class Stopped(Exception):
    """The run is cut off here."""


class Average:
    """An average of the parameters, as users write it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.values = [parameter.detach().clone() for parameter in model.parameters()]

    def update(self) -> None:
        for value, parameter in zip(self.values, self.model.parameters()):
            value.lerp_(parameter.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = [saved.to(value.device) for saved, value in zip(state["values"], self.values)]


def seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)


def number_of(loop: Loop) -> int:
    """The number of the batch in hand, also after a resume, where a script's own count starts again."""
    assert loop._cursor.batch
    return loop._cursor.batch.number


class Training:
    """A training with dropout, batch norm, shuffling, augmentation, two schedulers, a moving average and means."""

    def __init__(self, precision: str = "fp32", **settings: Any) -> None:
        seed(1)
        settings = {"device": "cpu", "accumulate": ACCUMULATE, "quiet": True, **settings}
        self.loop = Loop(precision=precision, **settings)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.9)
        self.by_epoch = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda epoch: 0.5**epoch)
        loader = DataLoader(Noisy(), batch_size=BATCH, shuffle=True, collate_fn=_collate)
        self.model, self.optimizer, self.loader, self.scheduler = self.loop.prepare(
            self.model, self.optimizer, loader, self.scheduler
        )
        self.average = Average(self.model)
        self.loop.keep(average=self.average, by_epoch=self.by_epoch)
        self.means: dict[str, Any] = {}
        self.seen: list[tuple[int, int]] = []

    def run(
        self, at: Callable[[int, int], None] = lambda *_: None, after: Callable[[int], None] = lambda _: None
    ) -> None:
        """`at` is called in the body of each batch, `after` after the batches of an epoch."""
        seed(2)
        for epoch in self.loop.epochs(EPOCHS):
            torch.rand(())  # what a script draws at the top of an epoch's body
            for x, y in self.loader:
                number = number_of(self.loop)
                with self.loop.step():
                    loss = self.loop.backward(nn.functional.mse_loss(self.model(x), y))
                self.loop.log(loss=loss)
                at(epoch, number)
                self.average.update()
                self.seen.append((epoch, number))
            self.means[f"epoch {epoch}"] = self.loop.metrics()
            self.by_epoch.step()
            after(epoch)
        self.ends()

    def ends(self) -> None:
        """Note everything that a difference could show in."""
        self.result = {
            "model": {name: value.clone() for name, value in self.model.state_dict().items()},
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.values,
            "random": (random.random(), torch.rand(3)),
            "steps": self.loop.optimizer_steps,
            "norm": self.loop.grad_norm,
            "scale": self.loop.precision.scaler.state_dict(),
        }


def _collate(samples: list[Any]) -> list[torch.Tensor]:
    return [torch.stack(parts) for parts in zip(*samples)]


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other)):
            assert_same(a, b, f"{where}.{i}")
    else:
        assert one == other, where


def resumed(place: Path, uninterrupted: Training, **settings: Any) -> Training:
    """A new training that goes on from `place` to its end, which is that of the uninterrupted one."""
    training = Training(**settings)
    assert training.loop.resume(place)
    random.seed(77)
    torch.rand(5)  # what a script draws between resuming and training changes nothing
    training.run()
    for epoch, means in training.means.items():
        assert means == uninterrupted.means[epoch]
    assert_same(training.result, uninterrupted.result)
    return training


def stopped_after(folder: Path, epoch: int, number: int, **settings: Any) -> None:
    """Train, ask for a save in the body of this batch, stop as soon as it is made."""
    training = Training(**settings)

    def at(e: int, n: int) -> None:
        if (e, n) == (epoch, number):
            training.loop.save(folder)
        if folder.exists():
            raise Stopped

    with pytest.raises(Stopped):
        training.run(at, after=lambda _: at(-1, -1))


@pytest.mark.parametrize("settings", [{}, {"precision": "fp16", "clip_norm": 0.1}], ids=["fp32", "fp16"])
def test_every_place_to_stop_at_goes_on_bit_for_bit(tmp_path: Path, settings: dict[str, Any]) -> None:
    whole = Training(**settings)
    whole.run()
    for epoch in range(EPOCHS):
        for number in range(BATCHES):
            folder = tmp_path / f"{epoch}-{number}"
            stopped_after(folder, epoch, number, **settings)
            training = resumed(folder, whole, **settings)
            # windows close after the batches 2, 5 and 7: the save waits for that, and the next batch is what follows
            place = (epoch, next(end for end in (2, 5, 7) if end >= number) + 1)
            assert training.seen == [step for step in whole.seen if step >= place]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_on_a_gpu_too(tmp_path: Path, precision: str) -> None:
    settings = {"device": "cuda", "precision": precision}
    whole = Training(**settings)
    whole.run()
    for epoch, number in ((0, 1), (0, 7), (1, 4)):
        folder = tmp_path / f"{epoch}-{number}"
        stopped_after(folder, epoch, number, **settings)
        resumed(folder, whole, **settings)


@pytest.mark.parametrize("schedule", ["step", "epoch"])  # "epoch": the scheduler steps after what is saved
def test_saved_after_an_epoch_the_next_one_follows(tmp_path: Path, schedule: str) -> None:
    whole = Training(schedule=schedule)
    whole.run()
    for last in range(EPOCHS):
        stopped = Training(schedule=schedule)

        def after(epoch: int, last: int = last, loop: Loop = stopped.loop) -> None:
            if epoch == last:
                loop.save(tmp_path / str(last))
                assert len(list((tmp_path / str(last)).glob("step-*.pt"))) == 1  # at once
                raise Stopped

        with pytest.raises(Stopped):
            stopped.run(after=after)
        training = resumed(tmp_path / str(last), whole, schedule=schedule)
        assert training.seen == [(e, n) for e, n in whole.seen if e > last]


def test_carried_windows_are_saved_in_the_next_epoch(tmp_path: Path) -> None:
    settings = {"last_window": "carry"}  # 16 batches in windows of 3: the third one spans both epochs
    whole = Training(**settings)
    whole.run()
    stopped = Training(**settings)

    def after(epoch: int) -> None:
        stopped.loop.save(tmp_path / "folder")
        assert not (tmp_path / "folder").exists()

    def at(epoch: int, number: int) -> None:
        if (tmp_path / "folder").exists():
            assert (epoch, number) == (1, 1)
            raise Stopped

    with pytest.raises(Stopped):
        stopped.run(at, after)
    resumed(tmp_path / "folder", whole, **settings)


def test_the_carried_rest_does_not_keep_the_last_save_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(last_window="carry", quiet=False)
    training.run(after=lambda _: training.loop.save(tmp_path))
    assert "the last window was still open when the epochs ended" in capsys.readouterr().err
    again = Training(last_window="carry")
    assert again.loop.resume(tmp_path)
    assert list(again.loop.epochs(EPOCHS)) == []
    assert_same(again.model.state_dict(), training.model.state_dict())


def test_saved_before_an_epochs_batches_the_epoch_starts(tmp_path: Path) -> None:
    def run(training: Training, stop_before: int) -> list[int]:
        seed(2)
        epochs = []
        for epoch in training.loop.epochs(3):
            if epoch == stop_before:
                training.loop.save(tmp_path)
                raise Stopped
            epochs.append(epoch)
            for x, y in training.loader:
                with training.loop.step():
                    training.loop.backward(nn.functional.mse_loss(training.model(x), y))
        training.ends()
        return epochs

    for stop_before in (0, 2):
        whole, stopped, again = Training(), Training(), Training()
        run(whole, 3)
        with pytest.raises(Stopped):
            run(stopped, stop_before)
        assert again.loop.resume(tmp_path)
        assert run(again, 3) == list(range(stop_before, 3))
        assert_same(again.result, whole.result)


def test_saved_again_before_training_goes_on_nothing_moves(tmp_path: Path) -> None:
    whole = Training()
    whole.run()
    stopped_after(tmp_path / "first", 1, 4)
    for first, second in (("first", "second"), ("second", "third")):
        copying = Training()
        assert copying.loop.resume(tmp_path / first)
        torch.rand(7)
        copying.loop.save(tmp_path / second)
    resumed(tmp_path / "third", whole)


def test_own_data_has_epochs_too(tmp_path: Path) -> None:
    """Batches that do not come from a prepared loader: saved after them, the next epoch follows."""
    loop = Loop(device="cpu", quiet=True)
    model = nn.Linear(3, 1)
    loop.prepare(model, torch.optim.SGD(model.parameters()))
    for _ in loop.epochs(2):
        with loop.step(samples=1):
            loop.backward(model(torch.ones(3)).sum())
        loop.save(tmp_path)
        break
    again = Loop(device="cpu", quiet=True)
    again.prepare(model, torch.optim.SGD(model.parameters()))
    assert again.resume(tmp_path)
    assert list(again.epochs(3)) == [1, 2]


def test_nothing_there_is_a_fresh_start(tmp_path: Path) -> None:
    training = Training()
    assert not training.loop.resume(tmp_path / "nowhere")
    assert not training.loop.resume(tmp_path)
    with pytest.raises(CheckpointError, match=r"there is no such file; give a folder to start anew in it"):
        training.loop.resume(tmp_path / "step-00000001.pt")


def test_extra_values_come_back(tmp_path: Path) -> None:
    training = Training()
    assert training.loop.extra == {}
    values = {"best": 0.3, "history": [1, (2.5, "x")], "mask": torch.tensor([True, False])}
    training.loop.save(tmp_path, **values)
    again = Training()
    again.loop.resume(tmp_path)
    assert_same(again.loop.extra, values)
    assert again.loop.optimizer_steps == 0
    with pytest.raises(
        UsageError, match=r"loop.save\(...\): path\['a'\]\[0\] is of type PosixPath; a checkpoint holds"
    ):
        training.loop.save(tmp_path, path={"a": [tmp_path]})


def test_the_newest_is_resumed_or_the_one_named(tmp_path: Path) -> None:
    training = Training()
    training.run(lambda *_: training.loop.save(tmp_path, keep=3))
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"step-0000000{n}.pt" for n in (4, 5, 6)]
    for place, steps in ((tmp_path, 6), (tmp_path / "step-00000005.pt", 5)):
        again = Training()
        assert again.loop.resume(place)
        assert again.loop.optimizer_steps == steps


def test_a_damaged_newest_is_told_and_not_passed_over(tmp_path: Path) -> None:
    training = Training()
    training.run(lambda *_: training.loop.save(tmp_path, keep=2))
    newest = tmp_path / "step-00000006.pt"
    newest.write_bytes(newest.read_bytes()[:-1000])
    again = Training()
    with pytest.raises(CheckpointError, match=r'cut off or damaged.*loop.resume\(".*step-00000005.pt"\)'):
        again.loop.resume(tmp_path)
    assert again.loop.resume(tmp_path / "step-00000005.pt")


# --- when a save is made ----------------------------------------------------------------------------------------------


def test_a_loop_left_by_break_is_saved_at_the_end_of_the_epochs_body(tmp_path: Path) -> None:
    def run(training: Training, stop_after: int) -> None:
        seed(2)
        for epoch in training.loop.epochs(3):
            if epoch > stop_after:
                raise Stopped
            for x, y in training.loader:
                number = number_of(training.loop)
                with training.loop.step():
                    training.loop.backward(nn.functional.mse_loss(training.model(x), y))
                if number == 5:
                    if epoch == stop_after:
                        training.loop.save(tmp_path)
                    break
            training.by_epoch.step()
        training.ends()

    whole, stopped, again = Training(), Training(), Training()
    run(whole, 3)
    with pytest.raises(Stopped):
        run(stopped, 1)
    assert again.loop.resume(tmp_path)
    run(again, 3)
    assert_same(again.result, whole.result)


def test_left_altogether_a_save_that_waits_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(quiet=False)
    with pytest.raises(Stopped):
        training.run(lambda *_: (training.loop.save(tmp_path / "folder"), _stop()))
    assert "was not done: the loop was left before the body that it was asked for in" in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


def _stop() -> None:
    raise Stopped


def test_a_failed_window_is_not_saved(tmp_path: Path) -> None:
    training = Training()

    def at(epoch: int, number: int) -> None:
        training.loop.save(tmp_path / "folder")
        if number == 1:
            with training.loop.step():
                _stop()

    with pytest.raises(Stopped):
        training.run(at)
    assert not (tmp_path / "folder").exists()


def test_in_a_second_loop_over_batches_a_save_waits_for_the_end_of_the_body(tmp_path: Path) -> None:
    def run(training: Training, stop_after: int) -> None:
        seed(2)
        for epoch in training.loop.epochs(3):
            if epoch > stop_after:
                raise Stopped
            for part in range(2):
                for x, y in training.loader:
                    with training.loop.step():
                        training.loop.backward(nn.functional.mse_loss(training.model(x), y))
                    if epoch == stop_after and part == 1:
                        training.loop.save(tmp_path)
        training.ends()

    whole, stopped, again = Training(), Training(), Training()
    run(whole, 3)
    with pytest.raises(Stopped):
        run(stopped, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000012.pt"]
    assert again.loop.resume(tmp_path)
    run(again, 3)
    assert_same(again.result, whole.result)


def test_outside_of_epochs_only_the_first_loop_can_be_resumed(tmp_path: Path) -> None:
    training = Training(accumulate=1)
    for part in range(2):
        for x, y in training.loader:
            with training.loop.step():
                training.loop.backward(nn.functional.mse_loss(training.model(x), y))
            if part == 0:
                training.loop.save(tmp_path)
            else:
                with pytest.raises(UsageError, match=r"loop over loop.epochs"):
                    training.loop.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == BATCHES


def test_a_loader_inside_a_batchs_body_does_not_save(tmp_path: Path) -> None:
    def run(training: Training, held_out: Any, save: bool) -> None:
        seed(2)
        for epoch in training.loop.epochs(EPOCHS):
            for x, y in training.loader:
                number = number_of(training.loop)
                with training.loop.step():
                    training.loop.backward(nn.functional.mse_loss(training.model(x), y))
                if number == 2:
                    for x, y in held_out:
                        if save and epoch == 1:
                            training.loop.save(tmp_path / "folder")
                        assert not save or not (tmp_path / "folder").exists()
                        training.loop.log(held_out=nn.functional.mse_loss(training.model(x), y))
                    training.average.update()
                    training.means[str(epoch)] = training.loop.metrics()
                if (tmp_path / "folder").exists() and save:
                    raise Stopped
        training.ends()

    whole, stopped, again = Training(), Training(), Training()
    for training, save in ((whole, False), (stopped, True)):
        held_out = training.loop.prepare(DataLoader(Noisy(), batch_size=8, collate_fn=_collate))
        with pytest.raises(Stopped) if save else contextlib.nullcontext():
            run(training, held_out, save)
    with pytest.raises(CheckpointError, match="2 loaders in the checkpoint, 1 prepared"):
        again.loop.resume(tmp_path / "folder")
    again = Training()
    held_out = again.loop.prepare(DataLoader(Noisy(), batch_size=8, collate_fn=_collate))
    assert again.loop.resume(tmp_path / "folder")
    run(again, held_out, False)
    assert_same(again.result, whole.result)


# --- in the background ------------------------------------------------------------------------------------------------


def test_saved_in_the_background_it_is_the_state_of_the_moment(tmp_path: Path) -> None:
    whole, stopped = Training(), Training()
    whole.run()
    stopped.run(lambda *_: stopped.loop.save(tmp_path, wait=False))
    assert len(list(tmp_path.glob("step-*.pt"))) == 6  # the end of the epochs has waited for the last
    for path in tmp_path.iterdir():
        resumed(path, whole)


def test_an_error_in_the_background_is_raised_at_the_next_save(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    training = Training()
    training.loop.save(tmp_path / "file", wait=False)
    with pytest.raises(CheckpointError, match="File exists"):
        training.loop.save(tmp_path / "folder")
    training.loop.save(tmp_path / "folder")
    training.loop.save(tmp_path / "file", wait=False)
    with pytest.raises(CheckpointError, match="File exists"):
        training.run()


AT_THE_END = """
import sys
from pathlib import Path
import torch
from flatout import Loop
loop = Loop(device="cpu", quiet=True)
model = loop.prepare(torch.nn.Linear(2, 2))
loop.save(Path(sys.argv[1]), wait=False)
loop.save(Path(sys.argv[2]), wait=False)
"""


def test_the_end_of_the_process_waits_and_tells(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    arguments = [sys.executable, "-c", AT_THE_END, tmp_path / "folder", tmp_path / "file"]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert (tmp_path / "folder" / "step-00000000.pt").exists()
    assert ended.stderr.startswith("flatout: loop.save(")
    assert "File exists" in ended.stderr


# --- what does not fit ------------------------------------------------------------------------------------------------


def parts(model: nn.Module, optimizer: Any = torch.optim.AdamW, samples: int = 8, **settings: Any) -> tuple[Any, ...]:
    loop = Loop(device="cpu", quiet=True, **settings)
    data = [torch.ones(3)] * samples
    return loop, *loop.prepare(model, optimizer(model.parameters()), DataLoader(data, batch_size=2))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint in the middle of an epoch."""
    loop, model, _, loader = parts(nn.Linear(3, 2))
    for batch in loader:
        with loop.step():
            loop.backward(model(batch).sum())
        loop.save(tmp_path / "saved", keep=1)
        if (tmp_path / "saved").exists():
            break
    return tmp_path / "saved"


def two_groups(parameters: Any) -> Any:
    first, second = parameters
    return torch.optim.AdamW([{"params": [first]}, {"params": [second]}])


MISMATCHES: dict[str, tuple[Callable[[], Any], str]] = {
    "other names": (
        lambda: parts(nn.Sequential(nn.Linear(3, 2))),
        "model 0: the checkpoint lacks 0.weight, 0.bias; model 0: the model lacks weight, bias",
    ),
    "other shapes": (
        lambda: parts(nn.Linear(3, 4)),
        r"weight \(\[2, 3\] float32 in the checkpoint, \[4, 3\] float32 in the model\), bias .*; optimizer 0: of "
        r"another shape or in another order are the parameters 0.0 \(\[2, 3\] in the checkpoint, \[4, 3\] here\)",
    ),
    "other types": (lambda: parts(nn.Linear(3, 2).double()), r"\[2, 3\] float32 in the checkpoint, \[2, 3\] float64"),
    "many other names": (
        lambda: parts(nn.Sequential(*[nn.Linear(3, 3) for _ in range(5)])),
        "the checkpoint lacks 0.weight, 0.bias, 1.weight and 7 more",
    ),
    "another optimizer": (lambda: parts(nn.Linear(3, 2), torch.optim.SGD), "optimizer 0: AdamW in the .*, SGD here"),
    "other groups": (lambda: parts(nn.Linear(3, 2), two_groups), "1 parameter groups in the checkpoint, 2 here"),
    "fewer parameters": (
        lambda: parts(nn.Linear(3, 2), lambda p: torch.optim.AdamW(list(p)[:1])),
        "2 parameters in group 0 in the checkpoint, 1 here",
    ),
    "other data": (
        lambda: parts(nn.Linear(3, 2), samples=10),
        "loader 0 of 8 samples in 4 batches of 2, now 10 samples in 5 batches of 2",
    ),
    "another precision": (
        lambda: parts(nn.Linear(3, 2), precision="bf16"),
        "saved in fp32, and this loop runs in bf16",
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_what_does_not_fit_is_named_and_changes_nothing(saved: Path, name: str) -> None:
    make, message = MISMATCHES[name]
    loop, model, optimizer, _ = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random_before = torch.get_rng_state()
    with pytest.raises(CheckpointError, match=message) as error:
        loop.resume(saved)
    assert "loop.resume(" in str(error.value)
    assert_same(model.state_dict(), before)
    assert optimizer.state == {}
    assert torch.equal(torch.get_rng_state(), random_before)
    assert loop.optimizer_steps == 0


def test_the_number_of_things_and_their_names_have_to_fit(saved: Path) -> None:
    loop, model, _, _ = parts(nn.Linear(3, 2))
    loop.keep(average=Average(model))
    with pytest.raises(CheckpointError, match=r"kept objects \[\] in the checkpoint, \['average'\] here"):
        loop.resume(saved)
    loop = Loop(device="cpu", quiet=True)
    loop.prepare(model)
    with pytest.raises(CheckpointError, match="1 optimizers in the checkpoint, 0 prepared"):
        loop.resume(saved)


class Refuses:
    """Takes no state."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise ValueError("not this one")


def test_a_kept_object_that_refuses_leaves_the_rest_untouched(tmp_path: Path) -> None:
    loop, model, optimizer, _ = parts(nn.Linear(3, 2))
    loop.keep(odd=Refuses())
    loop.save(tmp_path)
    loop, model, optimizer, _ = parts(nn.Linear(3, 2))
    loop.keep(odd=Refuses())
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(
        CheckpointError, match=r"'odd', kept by loop.keep, does not take its state .*ValueError: not this"
    ):
        loop.resume(tmp_path)
    assert_same(model.state_dict(), before)
    assert optimizer.state == {}


def test_wrong_use(tmp_path: Path) -> None:
    loop = Loop(device="cpu", quiet=True)
    with pytest.raises(UsageError, match=r"loop.resume\(.*\): nothing is prepared"):
        loop.resume(tmp_path)
    with pytest.raises(UsageError, match=r"loop.save\(folder\): nothing is prepared"):
        loop.save(tmp_path)
    with pytest.raises(UsageError, match=r"loop.keep\(number=...\): a int has no state_dict"):
        loop.keep(number=3)
    loop, model, _, loader = parts(nn.Linear(3, 2))
    with pytest.raises(UsageError, match=r"keep=0"):
        loop.save(tmp_path, keep=0)
    loop.keep(other=Average(model))
    with pytest.raises(UsageError, match=r"there is something under this name already"):
        loop.keep(other=Average(model))
    for _ in loader:
        with pytest.raises(UsageError, match="in the middle of training"):
            loop.resume(tmp_path)
    for _ in loop.epochs(1):
        with pytest.raises(UsageError, match=r"resume before `for epoch in loop.epochs\(n\):`"):
            loop.resume(tmp_path)


def test_our_schema_alone_makes_no_checkpoint(tmp_path: Path) -> None:
    loop, *_ = parts(nn.Linear(3, 2))
    torch.save({"schema": "flatout.checkpoint/1", "models": []}, tmp_path / "step-00000001.pt")
    with pytest.raises(CheckpointError, match=r"step-00000001.pt: lacks epoch, so loop.save did not write it"):
        loop.resume(tmp_path)


# --- what is saved ----------------------------------------------------------------------------------------------------


def test_names_are_those_of_the_plain_model(tmp_path: Path) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)  # a name of the user's own, which is no wrapper's

    plain = Outer()
    compiled = Outer()
    compiled.module = torch.compile(compiled.module, backend="eager")  # type: ignore[assignment]
    assert "module._orig_mod.weight" in compiled.state_dict()
    for i, (first, second) in enumerate([(plain, compiled), (compiled, plain)]):
        loop = Loop(device="cpu", quiet=True)
        loop.prepare(first)
        loop.save(tmp_path / str(i))
        content = torch.load(tmp_path / str(i) / "step-00000000.pt", weights_only=True)
        assert list(content["models"][0]) == ["module.weight", "module.bias"]
        with torch.no_grad():
            expected = first.module.weight.clone()
            second.module.weight.zero_()
        loop = Loop(device="cpu", quiet=True)
        loop.prepare(second)
        loop.resume(tmp_path / str(i))
        assert torch.equal(second.module.weight, expected)


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: 0.9**n),
    "milestones": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 1, 4]),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, cycle_momentum=False),
    "warm restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "plateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "averaging": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=5),
    "one after the other": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=3), torch.optim.swa_utils.SWALR(o, swa_lr=0.05)],
        milestones=[3],
    ),
    "together": lambda o: torch.optim.lr_scheduler.ChainedScheduler(
        [torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")  # SequentialLR's own call
@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_kind_of_scheduler_goes_on(tmp_path: Path, name: str) -> None:
    def training() -> tuple[Any, ...]:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        loop = Loop(device="cpu", quiet=True, schedule="manual")
        return loop, *loop.prepare(model, optimizer, SCHEDULERS[name](optimizer))

    def step(loop: Any, model: Any, optimizer: Any, scheduler: Any, number: int) -> float:
        with loop.step(samples=1):
            loop.backward(model(torch.ones(2)).sum() * 0)
        scheduler.step(*[number % 3] if name == "plateau" else [])
        return float(optimizer.param_groups[0]["lr"])

    whole = training()
    rates = [step(*whole, n) for n in range(10)]
    for stop in (2, 3, 5):
        stopped, again = training(), training()
        for n in range(stop):
            step(*stopped, n)
        stopped[0].save(tmp_path / str(stop))
        assert again[0].resume(tmp_path / str(stop))
        assert [step(*again, n) for n in range(stop, 10)] == rates[stop:]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.1), amsgrad=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_kind_of_optimizer_goes_on(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    def training() -> tuple[Any, ...]:
        torch.manual_seed(0)
        model = nn.Linear(5, 3).to(dtype)
        loop = Loop(device="cpu", quiet=True)
        return loop, *loop.prepare(model, OPTIMIZERS[name](model.parameters()))

    def steps(loop: Any, model: Any, optimizer: Any, count: int) -> None:
        for _ in range(count):
            with loop.step(samples=1):
                loop.backward(model(torch.randn(2, 5, dtype=dtype)).square().mean())

    whole, stopped, again = training(), training(), training()
    torch.manual_seed(1)
    steps(*whole, 6)
    torch.manual_seed(1)
    steps(*stopped, 3)
    stopped[0].save(tmp_path)
    again[0].resume(tmp_path)
    (tmp_path / "step-00000003.pt").write_bytes(b"")  # nothing of the file is in use any more
    steps(*again, 3)
    assert_same(again[1].state_dict(), whole[1].state_dict())
    assert_same(again[2].state_dict(), whole[2].state_dict())


def test_states_wider_than_their_parameter_lose_no_bit(tmp_path: Path) -> None:
    class Wide(torch.optim.Optimizer):
        """Keeps float32 sums for bfloat16 parameters; PyTorch's load_state_dict would cast them."""

        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                state["sum"] = state.get("sum", torch.zeros(parameter.shape)) + parameter.grad.float() / 3

    def training() -> tuple[Any, ...]:
        model = nn.Linear(2, 1).bfloat16()
        loop = Loop(device="cpu", quiet=True)
        return loop, *loop.prepare(model, Wide(model.parameters(), {}))

    loop, model, optimizer = training()
    with loop.step(samples=1):
        loop.backward(model(torch.ones(1, 2).bfloat16()).sum())
    loop.save(tmp_path)
    again = training()
    again[0].resume(tmp_path)
    assert_same(again[2].state_dict(), optimizer.state_dict())
    assert again[2].state[again[1].weight]["sum"].dtype == torch.float32


def test_an_average_model_is_kept(tmp_path: Path) -> None:
    def training() -> tuple[Any, ...]:
        loop, model, *_ = parts(nn.Linear(3, 2))
        average = torch.optim.swa_utils.AveragedModel(model)
        loop.keep(average=average)
        return loop, model, average

    loop, model, average = training()
    average.update_parameters(model)
    loop.save(tmp_path)
    again = training()
    assert again[0].resume(tmp_path)
    assert_same(again[2].state_dict(), average.state_dict())
    other, model, *_ = parts(nn.Linear(3, 2))
    other.keep(average=nn.Linear(3, 1))
    with pytest.raises(CheckpointError, match="average: the checkpoint lacks weight, bias"):
        other.resume(tmp_path)


@pytest.mark.parametrize("wait", [True, False])
def test_a_relative_folder_is_where_it_was_when_the_save_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    then, later = tmp_path / "then", tmp_path / "later"
    then.mkdir()
    later.mkdir()
    training = Training()

    def save(epoch: int, number: int) -> None:
        monkeypatch.chdir(then)
        training.loop.save("checkpoints", wait=wait)
        monkeypatch.chdir(later)

    training.run(save)
    assert list(then.glob("checkpoints/step-*.pt"))
    assert not list(later.iterdir())
