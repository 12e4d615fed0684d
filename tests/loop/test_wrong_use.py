"""Wrong use gives one error that names the call and the rule."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from flatout import Loop
from flatout.errors import FlatoutError, TrainingError, UsageError

X = torch.ones(2, 4)


def loop(**settings: Any) -> Loop:
    return Loop(device="cpu", quiet=True, **settings)


def prepared(**settings: Any) -> tuple[Loop, nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(4, 1)
    made = loop(**settings)
    return (made, *made.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1)))


def step_without_prepare() -> None:
    with loop().step():
        pass


def backward_outside_of_a_step() -> None:
    made, model, _ = prepared()
    made.backward(model(X).sum())


def unprepared_loader() -> None:
    made, model, _ = prepared()
    loader = DataLoader(TensorDataset(X), batch_size=2)
    made.prepare(loader)
    for (x,) in loader:
        with made.step():
            made.backward(model(x).sum())


def model_on_another_device() -> None:
    made, model, _ = prepared()
    model.to("meta")
    with made.step():
        made.backward(model(X).sum())


def unprepared_model() -> None:
    made, model = loop(), nn.Linear(4, 1)
    made.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
    with made.step():
        made.backward(model(X).sum())


def optimizer_of_another_model() -> None:
    made, model = loop(), nn.Linear(4, 1)
    model, _ = made.prepare(model, torch.optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1))
    with made.step():
        made.backward(model(X).sum())


def unprepared_optimizer() -> None:
    made, model, _ = prepared()
    with made.step(torch.optim.Adam(model.parameters())):
        made.backward(model(X).sum())


def scheduler_of_an_unprepared_optimizer() -> None:
    made, model, _ = prepared()
    made.prepare(torch.optim.lr_scheduler.StepLR(torch.optim.Adam(model.parameters()), 1))
    with made.step():
        made.backward(model(X).sum())


def loss_of_another_model() -> None:
    made, _, _ = prepared()
    other = nn.Linear(4, 1)
    with made.step():
        made.backward(other(X).sum())


def nan_loss() -> None:
    made, model, _ = prepared()
    with made.step():
        made.backward(model(X).sum() * float("nan"))


def nested_steps() -> None:
    made, _, _ = prepared()
    with made.step(), made.step():
        pass


def step_without_backward() -> None:
    made, model, _ = prepared()
    with made.step():
        model(X)


def prepared_twice(of: Callable[[nn.Module], Any]) -> Callable[[], None]:
    def twice() -> None:
        made, thing = loop(), of(nn.Linear(4, 1))
        made.prepare(thing)
        made.prepare(thing)

    return twice


def backward(loss: Callable[[nn.Module], Any], **arguments: Any) -> Callable[[], None]:
    def use() -> None:
        made, model, _ = prepared()
        with made.step():
            made.backward(loss(model), **arguments)

    return use


def without_grad(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(X).sum()


def step_of(*optimizers: int, **arguments: Any) -> Callable[[], None]:
    def use() -> None:
        made, model, optimizer = prepared()
        with made.step(*[optimizer for _ in optimizers], **arguments):
            made.backward(model(X).sum())

    return use


def backward_with(weight: float) -> Callable[[], None]:
    def use() -> None:
        made, model, _ = prepared()
        with made.step():
            made.backward(model(X).sum(), weight=weight)

    return use


def inside_a_step(call: Callable[[torch.optim.Optimizer], Any], **settings: Any) -> Callable[[], None]:
    """Lines of the plain loop that were left in."""

    def use() -> None:
        made, model, optimizer = prepared(**settings)
        for _ in range(2):
            with made.step():
                call(optimizer)
                made.backward(model(X).sum())

    return use


def step_by_hand_in_a_window() -> None:
    made, model, optimizer = prepared(accumulate=2)
    for _ in range(2):
        with made.step():
            made.backward(model(X).sum())
        optimizer.step()


WRONG = {
    "an optimizer stepped by hand": (
        inside_a_step(lambda optimizer: optimizer.step()),
        r"loop.step\(\): SGD.step\(\) was called in the middle of a window; the loop steps prepared optimizers",
    ),
    "an optimizer stepped by hand between steps": (
        step_by_hand_in_a_window,
        r"loop.step\(\): SGD.step\(\) was called in the middle of a window; the loop steps prepared optimizers",
    ),
    "gradients cleared by hand": (
        inside_a_step(lambda optimizer: optimizer.zero_grad(), accumulate=2),
        r"loop.step\(\): the gradients of the window's 1 micro-batches so far were cleared, as by optimizer.zero_grad",
    ),
    "no place to save": (lambda: prepared()[0].save(None), r"loop.save\(None\): give a folder's name"),
    "no place to resume": (lambda: prepared()[0].resume(None), r"loop.resume\(None\): give a folder's name"),
    "a norm that is true": (lambda: loop(clip_norm=True), r"Loop\(clip_norm=True\): a norm is a number above 0"),
    "a class to recompute": (
        lambda: loop().prepare(nn.Linear(1, 1), checkpoint_activations=nn.Linear),
        r"loop.prepare\(checkpoint_activations=<class .*Linear'>\): give True, or the classes of the modules",
    ),
    "a name to recompute": (
        lambda: loop().prepare(nn.Linear(1, 1), checkpoint_activations="Block"),
        r"loop.prepare\(checkpoint_activations='Block'\): give True, or the classes of the modules",
    ),
    "no samples": (step_of(samples=0), r"loop.step\(samples=0\): a micro-batch holds at least one sample"),
    "samples below none": (step_of(samples=-3), r"loop.step\(samples=-3\): a micro-batch holds at least one sample"),
    "half a sample": (step_of(samples=1.5), r"loop.step\(samples=1.5\): a micro-batch holds at least one sample"),
    "an optimizer twice": (
        step_of(0, 0),
        r"loop.step\(\): an optimizer is named twice; name each once, or none for all",
    ),
    "a weight below 0": (
        backward_with(-1),
        r"loop.backward\(loss, weight=-1\): a weight is a number of things, from 0",
    ),
    "a weight that is NaN": (backward_with(float("nan")), r"loop.backward\(loss, weight=nan\): a weight is a number"),
    "epochs in words": (lambda: loop().epochs("3"), r"loop.epochs\('3'\): give the number of epochs, a whole number"),
    "half an epoch": (lambda: loop().epochs(1.5), r"loop.epochs\(1.5\): give the number of epochs, a whole number"),
    "a norm in words": (lambda: loop(clip_norm="1"), r"Loop\(clip_norm='1'\): a norm is a number above 0"),
    "a model without values": (
        lambda: loop().prepare(nn.Linear(4, 1, device="meta")),
        r"loop.prepare\(Linear\): it has parameters on the meta device, without values; give it some first",
    ),
    "step without prepare": (
        step_without_prepare,
        r"loop.step\(\): no optimizer is prepared; call loop.prepare\(model, optimizer, loader\) first",
    ),
    "step in parts without prepare": (
        lambda: loop().step_in_parts(X, torch.sum),
        r"loop.step_in_parts\(...\): no optimizer is prepared; call loop.prepare",
    ),
    "backward outside of a step": (
        backward_outside_of_a_step,
        r"loop.backward\(loss\): outside a step; call it inside `with loop.step\(\):`",
    ),
    "unprepared loader": (
        unprepared_loader,
        r"loop.step\(\): the batch does not come from a prepared loader; loop over what loop.prepare gave back",
    ),
    "model on another device": (
        model_on_another_device,
        r"loop.step\(\): the prepared Linear is not where it was put: `weight` is on meta, but the loop trains on cpu",
    ),
    "unprepared model": (unprepared_model, r"loop.step\(\): .* belongs to no prepared model; pass every model"),
    "optimizer of another model": (
        optimizer_of_another_model,
        r"loop.step\(\): .* shape \(2, 4\) on cpu that belongs to no",
    ),
    "unprepared optimizer": (
        unprepared_optimizer,
        r"loop.step\(Adam\): this optimizer was not prepared; pass it",
    ),
    "scheduler of an unprepared optimizer": (
        scheduler_of_an_unprepared_optimizer,
        r"loop.step\(\): the optimizer of the prepared StepLR was not prepared",
    ),
    "nested steps": (nested_steps, r"loop.step\(\): already inside a step; steps do not nest"),
    "step without backward": (step_without_backward, r"loop.step\(\): the block ended without loop.backward\(loss\)"),
    "model prepared twice": (prepared_twice(lambda m: m), r"loop.prepare\(Linear\): it is prepared already"),
    "optimizer prepared twice": (
        prepared_twice(lambda m: torch.optim.SGD(m.parameters(), lr=0.1)),
        r"loop.prepare\(SGD\): it is prepared already; prepare everything once",
    ),
    "loader prepared twice": (
        prepared_twice(lambda m: DataLoader(TensorDataset(X))),
        r"loop.prepare\(DataLoader\): it is prepared already",
    ),
    "something else prepared": (
        lambda: loop().prepare("model.pt"),
        r"loop.prepare\(...\): cannot prepare a str; it takes models, optimizers, DataLoaders and",
    ),
    "loss without a graph": (
        backward(without_grad),
        r"loop.backward\(loss\): the loss has no graph to go back",
    ),
    "loss that is detached": (backward(lambda m: m(X).sum().detach()), r"the loss has no graph .* detached"),
    "loss of many numbers": (
        backward(lambda m: m(X)),
        r"loop.backward\(loss\): the loss has shape \(2, 1\), and a backward pass starts from one number",
    ),
    "loss with NaN in one element": (
        backward(lambda m: m(X) * torch.tensor([[1.0], [float("nan")]])),
        r"loop.backward\(loss\): the loss has shape \(2, 1\)",
    ),
    "loss that is no tensor": (backward(lambda m: 0.5), r"loop.backward\(loss\): takes a tensor, not a float"),
    "a sum without what was summed": (
        backward(lambda m: m(X).sum(), reduction="sum"),
        r"loop.backward\(loss, reduction='sum'\): mean, or sum together with weight=",
    ),
    "an unknown reduction": (
        backward(lambda m: m(X).sum(), reduction="none"),
        r"loop.backward\(loss, reduction='none'\): mean, or sum",
    ),
    "accumulate=0": (lambda: loop(accumulate=0), r"Loop\(accumulate=0\): a window holds at least one micro-batch"),
    "accumulate=2.5": (lambda: loop(accumulate=2.5), r"Loop\(accumulate=2.5\): .* give a whole number from 1"),
    "accumulate=True": (lambda: loop(accumulate=True), r"Loop\(accumulate=True\)"),
    "clip_norm=0": (lambda: loop(clip_norm=0), r"Loop\(clip_norm=0\): a norm is a number above 0; give None"),
    "precision": (lambda: loop(precision="fp8"), r"Loop\(precision='fp8'\): not a precision; give one of auto, fp32"),
    "strategy": (lambda: loop(strategy="dp"), r"Loop\(strategy='dp'\): not one of auto, ddp, fsdp"),
    "last_window": (lambda: loop(last_window="skip"), r"Loop\(last_window='skip'\): not one of step, carry, drop"),
    "schedule": (lambda: loop(schedule="batch"), r"Loop\(schedule='batch'\): not one of step, epoch, manual"),
    "nan": (lambda: loop(nan="skip"), r"Loop\(nan='skip'\): not one of raise, ignore"),
    "compile": (
        lambda: loop().prepare(nn.Linear(1, 1), compile="fast"),
        r"loop.prepare\(compile='fast'\): not a mode of torch.compile; give True, False or one of default, reduce-",
    ),
    "fused": (
        lambda: loop().prepare(torch.optim.NAdam(nn.Linear(1, 1).parameters()), fused=True),
        r"loop.prepare\(NAdam, fused=True\): NAdam has no fused kernel; Adam, AdamW, SGD and Adagrad have one",
    ),
    "checkpoint_activations": (
        lambda: loop().prepare(nn.Linear(1, 1), checkpoint_activations=True),
        r"loop.prepare\(checkpoint_activations=True\): Linear holds no repeated blocks; name their class",
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(name: str) -> None:
    use, message = WRONG[name]
    with pytest.raises(UsageError, match=message) as caught:
        use()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (nan_loss, r"loop.backward\(loss\): the loss is NaN in epoch 0 \(step 1\); try a lower learning rate"),
        (loss_of_another_model, r"loop.step\(\): no parameter of the optimizer got a gradient in the first step"),
    ],
)
def test_training_gone_wrong(use: Callable[[], None], message: str) -> None:
    with pytest.raises(TrainingError, match=message) as caught:
        use()
    assert "\n" not in str(caught.value)


def test_a_loop_is_of_use_again_after_an_error() -> None:
    made, model, optimizer = prepared()
    for _ in range(2):
        with pytest.raises(FlatoutError), made.step():
            made.backward(model(X))
        assert all(p.grad is None for p in model.parameters())
    with made.step():
        made.backward(model(X).sum())
    assert made.optimizer_steps == 1
    assert optimizer.state_dict()["state"] is not None


def test_zero_grad_where_nothing_is_lost() -> None:
    made, model, optimizer = prepared()
    for _ in range(2):
        optimizer.zero_grad()
        with made.step():
            optimizer.zero_grad()
            made.backward(model(X).sum())
    assert made.optimizer_steps == 2


def test_a_loader_of_another_loop() -> None:
    """A notebook's cell that makes the loop and prepares everything is run again."""
    model, loader = nn.Linear(4, 1), DataLoader(TensorDataset(X), batch_size=1)
    for _ in range(3):
        made = loop()
        model, loader = made.prepare(model, loader)
        assert [len(x) for (x,) in loader] == [1, 1]
    with pytest.raises(UsageError, match="it is prepared already"):
        made.prepare(loader)


def test_no_epoch_left_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    made = Loop(device="cpu")
    assert list(made.epochs(2)) == [0, 1]
    assert "epochs" not in capsys.readouterr().err
    assert list(made.epochs(2)) == []
    assert "loop.epochs(2): 2 epochs are through already, so none is left" in capsys.readouterr().err
    assert list(made.epochs(3)) == [2]


@pytest.mark.parametrize("schedule", ["step", "epoch"])
def test_a_schedule_stepped_by_hand_as_well_is_said(capsys: pytest.CaptureFixture[str], schedule: str) -> None:
    for by_hand in (False, True):
        made, model = Loop(device="cpu", schedule=schedule), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, _, scheduler = made.prepare(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))
        for _ in made.epochs(3):
            with made.step():
                made.backward(model(X).sum())
            if by_hand:
                scheduler.step()
        said = capsys.readouterr().err
        assert said.count("warning: StepLR.step() is called by the script as well") == by_hand


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_an_optimizer_does_not_keep_a_loop_alive(precision: str) -> None:
    """In a notebook one optimizer may see many loops, each with loaders and their workers."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = loop(precision=precision)
    made.prepare(model, optimizer)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
    optimizer.step()
