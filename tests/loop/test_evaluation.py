"""Evaluation in one process. (Many processes: test_distributed.py.)"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import flatout
from flatout.errors import UsageError

X, Y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2


def loader(batch_size: int = 4) -> DataLoader[Any]:
    # a generator of its own: an iterator draws a seed, which would move on the dropout's numbers
    return DataLoader(TensorDataset(X, Y), batch_size=batch_size, generator=torch.Generator())


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def prepared(**options: Any) -> tuple[flatout.Loop, Any, Any, Any]:
    loop = flatout.Loop(device="cpu", quiet=True, **options)
    net = model()
    return loop, *loop.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), loader())


def test_each_module_gets_its_own_mode_back() -> None:
    loop, net, _, _ = prepared()
    net[1].eval()  # a frozen BatchNorm
    with loop.evaluation():
        assert not any(module.training for module in net.modules())
        assert not net(X).requires_grad
        assert torch.is_inference_mode_enabled()
    assert [module.training for module in net.modules()] == [True, True, False, True, True]
    assert torch.is_grad_enabled()


def test_an_exception_puts_everything_back() -> None:
    loop, net, _, train = prepared()

    def fail() -> None:
        with loop.evaluation():
            for _ in train:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert net.training
    assert not torch.is_inference_mode_enabled()
    assert (loop._cursor.batch, loop._cursor.evaluating, loop._cursor.even) == (None, False, False)


def test_it_runs_in_the_loops_precision_with_the_weights_of_the_moment() -> None:
    loop, net, _, _ = prepared(precision="bf16")
    with loop.evaluation():
        before = net(X)
        assert before.dtype == torch.bfloat16
        net[3].bias.data += 8  # averaged weights, put in for the evaluation
        net[3].weight.data *= 0
        assert torch.equal(net(X), net[3].bias.to(torch.bfloat16).expand(12, 2))
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_autocast_cache_enabled()


def test_a_window_goes_on_after_an_evaluation_within_it() -> None:
    weights = []
    for evaluates in (False, True):
        loop, net, _, train = prepared(accumulate=3)
        validation = loop.prepare(loader(5))
        torch.manual_seed(1)
        for x, y in train:
            batch = loop._cursor.batch
            if evaluates:
                with loop.evaluation():
                    for held, _ in validation:
                        net(held)
                assert loop._cursor.batch is batch
            with loop.step():
                loop.backward(nn.functional.cross_entropy(net(x), y))
        assert loop.optimizer_steps == 1
        weights.append([p.detach().clone() for p in net.parameters()] + [b.clone() for b in net.buffers()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_training_in_an_evaluation_and_the_other_way_round() -> None:
    loop, _, _, _ = prepared()
    with loop.evaluation(), pytest.raises(UsageError, match=r"loop\.step\(\): inside loop\.evaluation\(\)"):
        loop.step(samples=1)

    def within() -> None:
        with loop.step(samples=1):
            loop.evaluation()

    with pytest.raises(UsageError, match=r"loop\.evaluation\(\): inside a step"):
        within()


def test_training_and_evaluation_do_not_mix_in_one_mean() -> None:
    loop, _, _, _ = prepared()
    loop.log(loss=1.0)
    with loop.evaluation():
        loop.log(held_loss=3.0)
        with pytest.raises(UsageError, match=r"loop\.log\(loss=\.\.\.\): holds values of training and of evaluation"):
            loop.log(loss=3.0)
    assert loop.metrics() == {"loss": 1.0, "held_loss": 3.0}
    with loop.evaluation():
        loop.log(loss=3.0)
    assert loop.metrics() == {"loss": 3.0}


def test_a_compiled_model_is_evaluated_without_inference_tensors() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)
    net = nn.Linear(3, 2)
    net.compile(backend="eager")
    net, _ = loop.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for _ in range(2):
        with loop.evaluation():
            assert not torch.is_inference_mode_enabled()
            assert not net(X).requires_grad
        with loop.step(samples=12):
            loop.backward(net(X).square().mean())


class Pair(NamedTuple):
    left: torch.Tensor
    right: list[torch.Tensor]


def test_rows_keep_their_structure() -> None:
    loop, net, _, _ = prepared()
    rows = loop.gather({"a": Pair(net(X), [X]), "b": (torch.tensor(1.0),)})
    assert isinstance(rows["a"], Pair)
    assert rows["a"].left.shape == (12, 2)
    assert not rows["a"].left.requires_grad
    assert torch.equal(rows["a"].right[0], X)
    assert torch.equal(rows["b"][0], torch.tensor([1.0]))
    with pytest.raises(UsageError, match=r"loop\.gather\(\.\.\.\): a int has no rows"):
        loop.gather([1])


def test_epochs_tell_the_loaders() -> None:
    loop, _, _, train = prepared()
    seen: list[int] = []
    train.set_epoch = seen.append
    assert list(loop.epochs(3)) == [0, 1, 2]
    assert seen == [0, 1, 2]
