"""What two or more real processes do together. A script: each case runs on all ranks, its outcome goes to a file.

RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python ranks_cases.py OUT CASE...
"""

from __future__ import annotations

import copy
import itertools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

import flatout
from flatout.errors import TrainingError, UsageError
from flatout.loop.cursor import Batch
from flatout.loop.data.sharding import EpochPlan
from flatout.loop.processes import sharded

CASES: dict[str, Callable[[], None]] = {}
SAMPLES, FEATURES, CLASSES = 48, 6, 4


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


class Net(nn.Module):
    """Repeated blocks; a BatchNorm and dropout where asked for."""

    def __init__(self, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.enter = nn.Linear(FEATURES, 7)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(7, 7), nn.Tanh()) for _ in range(3))
        self.norm = nn.BatchNorm1d(7) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.leave = nn.Linear(7, CLASSES)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.drop(self.norm(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.encode(x))


def data(samples: int = SAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, FEATURES, generator=generator)
    return x, torch.randint(0, CLASSES, (samples,), generator=generator)


def net(**options: Any) -> Net:
    torch.manual_seed(0)
    return Net(**options)


def deal(loop: flatout.Loop, samples: int, batch_size: int) -> Iterator[slice]:
    """This rank's part of each batch, announced in the cursor as a prepared loader does it."""
    ranks, cursor = loop.ranks, loop._cursor
    plan = EpochPlan(samples, batch_size, ranks.count)
    before = cursor.batch
    for number in range(plan.batches):
        start, end = plan.part_of(number, ranks.rank)
        if start == end and cursor.evaluating and not cursor.even:
            break
        part = slice(start, end) if end > start else slice(samples - 1, samples)
        cursor.batch = Batch(number, end - start, number + 1 == plan.batches, plan)
        yield part
    cursor.batch = before


def whole(model: nn.Module) -> list[torch.Tensor]:
    """The full weights, wherever they lie."""
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone() for p in model.parameters()]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(p, q) for p, q in zip(a, b))


def close(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 2e-6) -> bool:
    return len(a) == len(b) and all(torch.allclose(p, q, rtol=tolerance, atol=tolerance) for p, q in zip(a, b))


def train(
    loop: flatout.Loop,
    model: nn.Module,
    *,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    samples: int = SAMPLES,
    batch_size: int = 4,
    epochs: int = 2,
    watch: Callable[[], None] = lambda: None,
) -> nn.Module:
    """Train with a Loop on this rank's part of the data."""
    x, y = data(samples)
    opt = optimizer(model.parameters(), lr=0.05)
    opt, model = loop.prepare(opt, model)  # in the order that is harder
    torch.manual_seed(3)
    for _ in loop.epochs(epochs):
        for part in deal(loop, samples, batch_size):
            with loop.step():
                loss = loop.backward(cross_entropy(model(x[part]), y[part]))
            loop.log(loss=loss)
            watch()
    return model


def plain(
    model: nn.Module,
    *,
    accumulate: int = 1,
    dtype: torch.dtype | None = None,
    clip: float | None = None,
    ddp: bool = True,
    samples: int = SAMPLES,
    batch_size: int = 4,
    epochs: int = 2,
) -> nn.Module:
    """The careful plain loop: with DDP on this rank's part, or in one process with batches `ranks` times as large."""
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if ddp else (1, 0)
    size = batch_size if ddp else batch_size * dist.get_world_size()
    x, y = data(samples)
    if ddp:
        model = DistributedDataParallel(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    plan = EpochPlan(samples, size, ranks)
    torch.manual_seed(3)
    for _ in range(epochs):
        for number in range(plan.batches):
            start = number // accumulate * accumulate
            window = range(start, min(start + accumulate, plan.batches))
            closes = number == window[-1]
            part = slice(*plan.part_of(number, rank))
            with nullcontext() if closes or not ddp else model.no_sync():
                with torch.autocast("cpu", dtype=dtype) if dtype else nullcontext():
                    loss = cross_entropy(model(x[part]), y[part])
                share = (part.stop - part.start) * ranks / sum(plan.total_in(n) for n in window)
                (loss * share).backward()
            if closes:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                opt.step()
                opt.zero_grad()
    return model


# --- DDP ------------------------------------------------------------------------------------------------------------


@case
def ddp_equals_plain_ddp_bit_for_bit() -> None:
    for options in ({}, {"accumulate": 3}, {"accumulate": 5}, {"clip_norm": 0.1}):
        for precision, dtype in (("fp32", None), ("bf16", torch.bfloat16)):
            model = train(flatout.Loop(device="cpu", precision=precision, quiet=True, **options), net(dropout=0.2))
            rival = plain(
                net(dropout=0.2), accumulate=options.get("accumulate", 1), dtype=dtype, clip=options.get("clip_norm")
            )
            assert equal(whole(model), whole(rival)), (options, precision)
            assert not equal(whole(model), whole(net())), "nothing was learned"


@case
def fp16_equals_plain_ddp_with_a_grad_scaler() -> None:
    x, y = data()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    loop = flatout.Loop(device="cpu", precision="fp16", clip_norm=0.3, accumulate=2, quiet=True)
    ours = train(loop, net(), samples=SAMPLES)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler, plan = torch.amp.GradScaler("cpu"), EpochPlan(SAMPLES, 4, ranks)
    for _ in range(2):
        for number in range(plan.batches):
            part = slice(*plan.part_of(number, rank))
            with nullcontext() if number % 2 else model.no_sync():
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = cross_entropy(model(x[part]), y[part])
                scaler.scale(loss * 0.5).backward()
            if number % 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.3)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    assert equal(whole(ours), whole(model))


@case
def two_models_that_take_turns_equal_one_process() -> None:
    """A GAN: the generator's step leaves no gradients in the discriminator, whose windows are longer."""
    x, y = data()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    loop = flatout.Loop(device="cpu", accumulate=2, quiet=True)
    first, second = net(), nn.Linear(CLASSES, 2)
    torch.manual_seed(5)
    nn.init.normal_(second.weight)
    rivals = copy.deepcopy(first), copy.deepcopy(second)
    of_first = torch.optim.SGD(first.parameters(), lr=0.1)
    of_second = torch.optim.SGD(second.parameters(), lr=0.1)
    first, second, of_first, of_second = loop.prepare(first, second, of_first, of_second)
    for i in range(4):
        part = slice(6 * i + 6 // ranks * rank, 6 * i + 6 // ranks * (rank + 1))
        with loop.step(of_second, samples=6 // ranks):
            loop.backward(cross_entropy(second(first(x[part]).detach()), y[part] % 2))
        with loop.step(of_first, samples=6 // ranks):
            loop.backward(cross_entropy(second(first(x[part])), 1 - y[part] % 2))
    for i in range(0, 4, 2):
        # Both accumulate over two batches with the weights from before.
        parts = [slice(6 * i, 6 * i + 6), slice(6 * i + 6, 6 * i + 12)]
        own = sum(cross_entropy(rivals[1](rivals[0](x[p]).detach()), y[p] % 2) for p in parts) / 2
        of_one = torch.autograd.grad(own, list(rivals[1].parameters()))
        early = cross_entropy(rivals[1](rivals[0](x[parts[0]])), 1 - y[parts[0]] % 2) / 2
        of_two = torch.autograd.grad(early, list(rivals[0].parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(rivals[1].parameters(), of_one):
                parameter -= 0.1 * gradient
        late = cross_entropy(rivals[1](rivals[0](x[parts[1]])), 1 - y[parts[1]] % 2) / 2
        of_late = torch.autograd.grad(late, list(rivals[0].parameters()))
        with torch.no_grad():
            for parameter, gradient, later in zip(rivals[0].parameters(), of_two, of_late):
                parameter -= 0.1 * (gradient + later)
    assert close(whole(first), whole(rivals[0]))
    assert close(whole(second), whole(rivals[1]))


class Numbers(IterableDataset):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return zip(*data(self.samples))


@case
def a_stream_that_ends_in_the_middle_of_a_window() -> None:
    for samples, strategy in itertools.product((41, 37, 44), STRATEGIES):
        loop = flatout.Loop(device="cpu", accumulate=4, strategy=strategy, quiet=True)
        model = net()
        loader = DataLoader(Numbers(samples), batch_size=4)
        loader, model, _ = loop.prepare(loader, model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in loop.epochs(2):
            for x, y in loader:
                with loop.step():
                    loop.backward(cross_entropy(model(x), y))
        assert close(whole(model), whole(plain(net(), accumulate=4, ddp=False, samples=samples))), samples


@case
def ddp_equals_one_process_with_the_whole_batch() -> None:
    # 41 on two ranks and 37 on three: the last batch has one sample for all of them
    for samples, accumulate in ((48, 1), (48, 3), (45, 3), (41, 2), (37, 3)):
        loop = flatout.Loop(device="cpu", accumulate=accumulate, clip_norm=0.5, quiet=True)
        model = train(loop, net(), samples=samples)
        rival = plain(net(), accumulate=accumulate, ddp=False, samples=samples, clip=0.5)
        assert close(whole(model), whole(rival)), (samples, accumulate)


@case
def a_prepared_loader_trains_as_one_process_with_batches_as_many_times_as_large() -> None:
    x, y = data(41)
    for strategy in STRATEGIES:
        loop = flatout.Loop(device="cpu", accumulate=2, strategy=strategy, quiet=True)
        model = net()
        loader = DataLoader(TensorDataset(x, y), batch_size=4)
        loader, model, _ = loop.prepare(loader, model, torch.optim.SGD(model.parameters(), lr=0.05))
        for _ in loop.epochs(2):
            for own_x, own_y in loader:
                with loop.step():
                    loop.backward(cross_entropy(model(own_x), own_y))
        assert close(whole(model), whole(plain(net(), accumulate=2, ddp=False, samples=41))), strategy


@case
def batchnorm_in_ddp_equals_plain_ddp() -> None:
    model = train(flatout.Loop(device="cpu", accumulate=2, quiet=True), net(norm=True))
    rival = plain(net(norm=True), accumulate=2)
    assert equal(whole(model), whole(rival))
    assert equal(list(model.buffers()), list(rival.buffers()))


@case
def tokens_that_differ_by_rank_make_the_global_mean() -> None:
    """Weights 3 and 20 and others: the gradient is that of the mean over all tokens of the window."""
    x, y = data()
    counts = [3, 20, 5, 1, 12, 2] if dist.get_world_size() == 2 else [3, 20, 9, 1, 12, 2]
    starts = [sum(counts[:i]) for i in range(len(counts))]
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for strategy in STRATEGIES:
        for reduction in ("mean", "sum"):
            loop = flatout.Loop(device="cpu", accumulate=len(counts) // ranks, strategy=strategy, quiet=True)
            model = net()
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            model, optimizer = loop.prepare(model, optimizer)
            for i in range(rank, len(counts), ranks):
                part = slice(starts[i], starts[i] + counts[i])
                with loop.step(samples=1):
                    loss = cross_entropy(model(x[part]), y[part], reduction=reduction)
                    loop.backward(loss, weight=torch.tensor(counts[i]) if rank else counts[i], reduction=reduction)
            rival = net()
            total = sum(counts)
            cross_entropy(rival(x[:total]), y[:total]).backward()
            torch.optim.SGD(rival.parameters(), lr=1.0).step()
            assert close(whole(model), whole(rival)), (strategy, reduction)


@case
def clipping_norm_is_the_same_everywhere_and_that_of_one_process() -> None:
    x, y = data(12)
    rival = net()
    cross_entropy(rival(x), y).backward()
    expected = nn.utils.clip_grad_norm_(rival.parameters(), 0.01)
    for strategy in STRATEGIES:
        loop = flatout.Loop(device="cpu", clip_norm=0.01, strategy=strategy, quiet=True)
        train(loop, net(), samples=12, epochs=1, batch_size=12 // dist.get_world_size())
        norm = loop.grad_norm
        assert type(norm) is torch.Tensor
        assert torch.allclose(norm, expected, rtol=1e-5), (strategy, norm, expected)
        assert len({float(n) for n in loop.ranks.gather(float(norm))}) == 1


@case
def overflow_on_one_rank_skips_the_step_on_all() -> None:
    x, y = data()
    for strategy in STRATEGIES:
        loop = flatout.Loop(device="cpu", precision="fp16", strategy=strategy, quiet=True)
        loop.precision.scaler._init_scale = 1024.0
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        model, optimizer, scheduler = loop.prepare(model, optimizer, scheduler)
        part = slice(4 * loop.ranks.rank, 4 * loop.ranks.rank + 4)
        seen = []
        for step in range(3):
            with loop.step(samples=4):
                loss = cross_entropy(model(x[part]), y[part])
                if step == 1 and loop.ranks.rank == 1:
                    loss = loss * float("inf")
                loop.backward(loss)
            seen.append((whole(model), loop.precision.scaler.get_scale(), optimizer.param_groups[0]["lr"]))
        assert not equal(seen[0][0], whole(net())), strategy
        assert equal(seen[0][0], seen[1][0]), (strategy, "stepped into infinity")
        assert not equal(seen[1][0], seen[2][0]), strategy
        assert [(scale, lr) for _, scale, lr in seen] == [(1024.0, 0.05), (512.0, 0.05), (512.0, 0.025)]
        assert loop.optimizer_steps == 2
        assert all(equal(seen[2][0], theirs) for theirs in loop.ranks.gather(seen[2][0]))


@case
def the_scheduler_steps_once_for_each_optimizer_step() -> None:
    loop = flatout.Loop(device="cpu", accumulate=2, quiet=True)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model, optimizer, scheduler = loop.prepare(model, optimizer, scheduler)
    samples = 12 * loop.ranks.count
    x, y = data(samples)
    for part in deal(loop, samples, 2):
        with loop.step():
            loop.backward(cross_entropy(model(x[part]), y[part]))
    assert loop.optimizer_steps == 3
    assert optimizer.param_groups[0]["lr"] == 0.125


@case
def a_method_other_than_forward_is_exchanged_too() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)

    class Encoder(Net):
        def energy(self, x: torch.Tensor) -> torch.Tensor:
            return self(x).square().mean()

    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = loop.prepare(model, optimizer)
    assert model.leave.out_features == CLASSES
    x, _ = data()
    part = slice(4 * loop.ranks.rank, 4 * loop.ranks.rank + 4)
    for _ in range(2):
        with loop.step(samples=4):
            loop.backward(model.energy(x[part]))
    weights = whole(model)
    assert all(equal(weights, theirs) for theirs in loop.ranks.gather(weights))
    if loop.ranks.is_first:
        model.encode(x)  # outside a step nothing is exchanged, so one rank may do it alone
    message = raised(TrainingError, lambda: past_the_model(loop, model, x[part]))
    assert "were not exchanged" in message


def past_the_model(loop: flatout.Loop, model: nn.Module, x: torch.Tensor) -> None:
    with loop.step(samples=4):
        loop.backward(loop.unwrap(model)(x).square().mean())


@case
def an_unused_parameter_is_one_error_at_once() -> None:
    x, _ = data()
    for find_unused in (False, True):
        loop = flatout.Loop(device="cpu", quiet=True)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model, optimizer = loop.prepare(model, optimizer, find_unused=find_unused)

        def step(loop: flatout.Loop = loop, model: nn.Module = model) -> None:
            with loop.step(samples=4):
                loop.backward(model.encode(x[:4]).square().mean())

        if find_unused:
            step()
            step()
            assert loop.optimizer_steps == 2
        else:
            message = raised(UsageError, step)
            assert "leave.weight, leave.bias" in message, message
            assert "find_unused=True" in message


def raised(kind: type[Exception], call: Callable[[], Any]) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


# --- FSDP -----------------------------------------------------------------------------------------------------------


@case
def fsdp_equals_one_process_with_the_whole_batch() -> None:
    for samples, options in ((48, {}), (45, {"accumulate": 3, "clip_norm": 0.5}), (41, {"accumulate": 2}), (37, {})):
        loop = flatout.Loop(device="cpu", strategy="fsdp", quiet=True, **options)
        model = train(loop, net(), samples=samples)
        assert sharded.is_sharded(model)
        rival = plain(
            net(),
            accumulate=options.get("accumulate", 1),
            ddp=False,
            samples=samples,
            clip=options.get("clip_norm"),
        )
        assert close(whole(model), whole(rival)), (samples, options)


@case
def fsdp_in_bf16_learns_what_ddp_learns() -> None:
    results = [
        whole(train(flatout.Loop(device="cpu", precision="bf16", strategy=strategy, quiet=True), net()))
        for strategy in ("ddp", "fsdp")
    ]
    assert close(*results, tolerance=1e-5)


@case
def fsdp_starts_from_the_first_rank_and_keeps_the_optimizers_groups() -> None:
    torch.manual_seed(dist.get_rank())  # other weights on each rank
    model = Net(norm=True)
    model.norm.running_mean.fill_(dist.get_rank())
    first = dist_broadcast(whole(model))
    decay, rest = [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "lr": 0.5}], lr=0.25)
    names = {id(p): name for name, p in model.named_parameters()}
    before = [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]
    loop = flatout.Loop(device="cpu", strategy="fsdp", quiet=True)
    optimizer, model = loop.prepare(optimizer, model)
    names = {id(p): name for name, p in model.named_parameters()}
    assert [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups] == before
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(0.25, 0.1), (0.5, 0.01)]
    assert equal(whole(model), first)
    assert float(model.norm.running_mean.sum()) == 0
    assert {type(p).__name__ for p in model.parameters()} == {"DTensor"}


@case
def fsdp_refuses_an_optimizer_with_a_state() -> None:
    loop = flatout.Loop(device="cpu", strategy="fsdp", quiet=True)
    model = net()
    optimizer = torch.optim.Adagrad(model.parameters())
    message = raised(UsageError, lambda: loop.prepare(model, optimizer))
    assert "Adagrad has a state already" in message
    loop.prepare(torch.optim.Adagrad(loop.prepare(net()).parameters()))


@case
def fsdp_forgets_a_window_that_an_exception_came_out_of() -> None:
    x, y = data()
    results = []
    for fails in (False, True):
        loop = flatout.Loop(device="cpu", strategy="fsdp", accumulate=2, quiet=True)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model, optimizer = loop.prepare(model, optimizer)
        parts = [slice(4 * i + 2 * loop.ranks.rank, 4 * i + 2 * loop.ranks.rank + 2) for i in range(4)]
        if fails:
            with loop.step(samples=2):
                loop.backward(cross_entropy(model(x[parts[3]]), y[parts[3]]))

            def fail(loop: flatout.Loop = loop, model: nn.Module = model) -> None:
                with loop.step(samples=2):
                    model(x[:2])
                    raise ZeroDivisionError

            raised(ZeroDivisionError, fail)
        for part in parts[:2]:
            with loop.step(samples=2):
                loop.backward(cross_entropy(model(x[part]), y[part]))
        results.append(whole(model))
    assert equal(*results)


def dist_broadcast(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    values = [tensors]
    dist.broadcast_object_list(values, src=0)
    return values[0]


# --- evaluation, metrics, exchanges ---------------------------------------------------------------------------------


@case
def evaluated_samples_count_once() -> None:
    for samples, batch_size in ((9, 2), (7, 1)):  # on three ranks the 7 end with one sample for all
        evaluate(samples, batch_size)


def evaluate(samples: int, batch_size: int) -> None:
    x, y = data(samples)
    reference = net(norm=True)
    with torch.no_grad():
        losses = cross_entropy(reference.eval()(x), y, reduction="none")
    for strategy in STRATEGIES:
        for even in (False, True):
            loop = flatout.Loop(device="cpu", strategy=strategy, quiet=True)
            model = net(norm=True)
            if loop.ranks.rank:
                model.norm.running_mean.fill_(5.0)  # the first rank's buffers are the model's
            model = loop.prepare(model)
            rows = []
            with loop.evaluation(even=even):
                for part in deal(loop, samples, batch_size):
                    own = cross_entropy(model(x[part]), y[part], reduction="none")
                    loop.log(loss=own.mean())
                    if even:
                        rows.append(loop.gather({"loss": own, "index": (torch.arange(samples)[part],)}))
                        assert not rows[-1]["loss"].requires_grad
            metrics = loop.metrics()
            assert abs(metrics["loss"] - float(losses.mean())) < 1e-6, (metrics, losses.mean())
            if even:
                assert torch.equal(torch.cat([r["index"][0] for r in rows]), torch.arange(samples))
                assert torch.allclose(torch.cat([r["loss"] for r in rows]), losses, atol=1e-6)


@case
def prepared_loaders_are_evaluated_without_repeats() -> None:
    """9 samples: by the loop's own sharding, and by the user's DistributedSampler, which repeats some."""
    x, y = data(9)
    with torch.no_grad():
        losses = cross_entropy(net()(x), y, reduction="none")
    samples = TensorDataset(x, y, torch.arange(9))
    for strategy in STRATEGIES:
        loop = flatout.Loop(device="cpu", strategy=strategy, quiet=True)
        model = loop.prepare(net())
        for sampler in (None, DistributedSampler(samples, shuffle=False)):
            loader = loop.prepare(DataLoader(samples, batch_size=2, sampler=sampler))
            for even in (False, True):
                seen, own = [], 0
                with loop.evaluation(even=even):
                    for own_x, own_y, index in loader:
                        loss = cross_entropy(model(own_x), own_y, reduction="none")
                        loop.log(loss=loss.mean())
                        own += loop._cursor.batch.samples
                        if even:
                            seen += loop.gather(index).tolist()
                assert abs(loop.metrics()["loss"] - float(losses.mean())) < 1e-6, (strategy, sampler, even)
                assert sum(loop.ranks.gather(own)) == 9
                assert not even or sorted(seen) == list(range(9)), seen
                assert not even or sampler or seen == list(range(9)), "not in the order of the samples"


@case
def rows_of_different_lengths_are_gathered() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)
    rank = loop.ranks.rank
    own = torch.full((rank, 2), rank)  # none on the first rank
    assert loop.gather(own)[:, 0].tolist() == [r for r in range(loop.ranks.count) for _ in range(r)]
    flag, scalar = loop.gather([torch.tensor([rank > 0]), torch.tensor(float(rank))])
    assert flag.tolist() == [r > 0 for r in range(loop.ranks.count)]
    assert scalar.tolist() == [float(r) for r in range(loop.ranks.count)]
    assert "not alike" in raised(UsageError, lambda: loop.gather(torch.zeros(1, rank)))
    assert "has no rows" in raised(UsageError, lambda: loop.gather("text"))
    with loop.evaluation():
        for _ in deal(loop, 2 * loop.ranks.count + 1, 1):
            assert "even=True" in raised(UsageError, lambda: loop.gather(own))
            break
    loop._cursor.batch = None


@case
def metrics_of_a_rank_without_a_batch() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)
    if loop.ranks.rank == 1:
        loop.log(seen=3.0)
    assert loop.metrics() == {"seen": 3.0}
    assert loop.metrics() == {}


@case
def an_evaluation_in_the_middle_of_a_window_changes_nothing() -> None:
    x, _ = data()
    for strategy in STRATEGIES:
        results = []
        for evaluate in (False, True):
            loop = flatout.Loop(device="cpu", accumulate=3, precision="bf16", strategy=strategy, quiet=True)
            model = net(norm=True)
            batches = 0

            def watch(loop: flatout.Loop = loop, model: nn.Module = model) -> None:
                nonlocal batches
                batches += 1
                place = loop._cursor.batch
                with loop.evaluation():
                    for part in deal(loop, 7 if batches % 2 else 9, 2):  # not the same number on each rank
                        loop._stepper.models[0](x[part])
                assert loop._cursor.batch is place
                assert all(m.training for m in model.modules())
                assert not sharded.is_sharded(model) or all(hasattr(p, "full_tensor") for p in model.parameters())

            trained = train(loop, model, watch=watch if evaluate else lambda: None)
            results.append(whole(trained))
            assert loop._cursor.batch is None
        assert equal(*results), strategy


@case
def exchanges() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)
    ranks, device = loop.ranks, loop.device
    count = dist.get_world_size()
    tensor = torch.tensor([ranks.rank, 1])
    assert ranks.sum(tensor, device).tolist() == [sum(range(count)), count]
    assert tensor.tolist() == [ranks.rank, 1], "an argument was changed"
    assert ranks.sum(torch.tensor([True]), device).tolist() == [count]
    assert float(ranks.sum(2**40 + ranks.rank, device)) == count * 2**40 + sum(range(count))
    assert ranks.any(ranks.rank == 1) is True
    assert ranks.any(False) is False
    assert ranks.gather({"rank": ranks.rank}) == [{"rank": r} for r in range(count)]
    assert ranks.broadcast(["first", ranks.rank]) == ["first", 0]
    ranks.barrier()
    assert flatout.Loop(device="cpu", quiet=True).ranks == ranks


@case
def prepare_refuses() -> None:
    loop = flatout.Loop(device="cpu", quiet=True)
    model = loop.prepare(net())
    assert "it is prepared already" in raised(UsageError, lambda: loop.prepare(model))
    assert "already; pass the plain one" in raised(UsageError, lambda: loop.prepare(DistributedDataParallel(net())))
    other = nn.Linear(2, 2 + loop.ranks.rank)
    assert "not the same everywhere" in raised(UsageError, lambda: loop.prepare(other))
    norm = net(norm=True)
    assert "works on GPUs only" in raised(UsageError, lambda: loop.prepare(norm, sync_batchnorm=True))
    frozen = net().requires_grad_(False)
    assert loop.prepare(frozen) is frozen
    if "fsdp" not in STRATEGIES:
        loop = flatout.Loop(device="cpu", strategy="fsdp", quiet=True)
        assert "shards on GPUs only" in raised(UsageError, lambda: loop.prepare(net()))


@case
def a_frozen_part_is_allowed() -> None:
    x, _ = data()
    for strategy in STRATEGIES:
        loop = flatout.Loop(device="cpu", strategy=strategy, quiet=True)
        model = net()
        model.enter.requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
        model, optimizer = loop.prepare(model, optimizer)
        for _ in range(2):
            with loop.step(samples=4):
                loop.backward(model(x[:4]).square().mean())
        assert loop.optimizer_steps == 2


def full_gradient_step(part: slice, lr: float) -> list[torch.Tensor]:
    """What one process makes of these samples in one step."""
    x, y = data()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    cross_entropy(model(x[part]), y[part]).backward()
    optimizer.step()
    return whole(model)


@case
def running_out_of_memory_on_one_rank_is_a_step_of_all() -> None:
    """Of 11 samples rank 0 has 5, which fit, and rank 1 has 6, of which 3 do; with and without BatchNorm's buffers."""
    x, y = data()
    loop = flatout.Loop(device="cpu", quiet=True, strategy="ddp")
    model = net()
    model.register_buffer("kept", torch.ones(3))
    model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5))
    rank, sizes = loop.ranks.rank, []

    def compute(part: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        sizes.append(len(part[0]))
        out = model(part[0])
        if rank == 1 and len(part[0]) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return cross_entropy(out, part[1])

    mine = slice(5 * rank, 5 + 6 * rank)
    loss = loop.step_in_parts((x[mine], y[mine]), compute)
    assert sizes == [[5, 2, 3], [6, 3, 3]][rank]
    assert close(whole(model), full_gradient_step(slice(0, 11), 0.5))
    assert torch.allclose(loss, cross_entropy(net()(x[mine]), y[mine]))
    loop.step_in_parts((x[:2], y[:2]), compute)
    with loop.step(samples=2):  # and an ordinary step afterwards
        loop.backward(cross_entropy(model(x[:2]), y[:2]))
    weights = loop.ranks.gather([w.tolist() for w in whole(model)])
    assert weights[0] == weights[1]
    assert loop.optimizer_steps == 3


@case
def steps_in_parts_refuse_sharded_models() -> None:
    if "fsdp" in STRATEGIES:
        loop = flatout.Loop(device="cpu", quiet=True, strategy="fsdp")
        model = net()
        model, _ = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5))
        told = raised(UsageError, lambda: loop.step_in_parts(data(), lambda part: model(part[0]).sum()))
        assert "the model is sharded; it works with Loop(strategy='ddp')" in told


@case
def a_window_that_ends_without_its_last_batch_is_exchanged() -> None:
    """Three global batches of 8, windows of 2; the last is skipped everywhere, or the loop is left before it."""
    x, y = (tensor[:24] for tensor in data())
    for strategy in STRATEGIES:
        for leave in (False, True):
            loop = flatout.Loop(device="cpu", accumulate=3, quiet=True, strategy=strategy)
            model = net()
            loader = DataLoader(TensorDataset(x, y), batch_size=4)
            model, _, loader = loop.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5), loader)
            for _ in loop.epochs(1):
                for i, (part_x, part_y) in enumerate(loader):
                    if i == 2:
                        if leave:
                            break
                        continue
                    with loop.step():
                        loop.backward(cross_entropy(model(part_x), part_y))
            assert loop.optimizer_steps == 1, (strategy, leave)
            assert close(whole(model), full_gradient_step(slice(0, 16), 0.5)), (strategy, leave)


@case
def options_of_prepare_with_ddp() -> None:
    """Recomputed blocks train bit for bit as those that are kept, with dropout, on many ranks too."""
    results = []
    for asked in (False, True):
        loop = flatout.Loop(device="cpu", quiet=True, strategy="ddp", accumulate=2)
        model = net(dropout=0.2)
        model, _optimizer = loop.prepare(
            model, torch.optim.SGD(model.parameters(), lr=0.1), checkpoint_activations=asked, channels_last=True
        )
        x, y = data()
        torch.manual_seed(5)
        for part in deal(loop, SAMPLES, 4):
            with loop.step():
                loop.backward(cross_entropy(model(x[part]), y[part]))
        results.append(whole(model))
    assert equal(*results)


STRATEGIES = ["ddp", "fsdp"] if hasattr(torch.cpu.Stream, "record_event") else ["ddp"]


def main(out: str, *names: str) -> None:
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)  # PyTorch's own, at the end of the process
    flatout.Loop(device="cpu", quiet=True)
    outcomes = {}
    for name in names or CASES:
        if name.startswith("fsdp") and "fsdp" not in STRATEGIES:
            outcomes[name] = "skipped"
            continue
        try:
            CASES[name]()
            outcomes[name] = "ok"
        except Exception:
            outcomes[name] = traceback.format_exc()
            break  # the ranks may no longer be doing the same
    Path(f"{out}.{dist.get_rank()}").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
