"""What each of two processes runs: every case with plain DDP and with Loop. Ends with an error where they differ."""

from __future__ import annotations

from typing import NamedTuple

import parity_plain as plain
import torch
import torch.distributed.nn.functional  # before the group is made, or its default arguments keep it for good
from parity_loop import assert_equal, make, train
from parity_plain import Recipe
from parity_tasks import TASKS, Task
from torch.utils.data import DataLoader, DistributedSampler


class Case(NamedTuple):
    """A task of so many samples to train on, and how it is trained."""

    task: str
    recipe: Recipe
    samples: int = 64
    tokens: bool = False


CASES = {
    "mlp": Case("mlp", Recipe()),
    "windows, clipping, scheduler": Case("mlp", Recipe(accumulate=2, clip=0.5, scheduler=True)),
    "a short last window": Case("mlp", Recipe(accumulate=3)),
    "a short last batch": Case("mlp", Recipe(accumulate=2), samples=72),
    "BatchNorm": Case("cnn", Recipe(accumulate=2, optimizer="sgd")),
    "bf16": Case("cnn", Recipe("bf16", accumulate=2)),
    "fp16": Case("mlp", Recipe("fp16", accumulate=2, clip=0.5)),
    "tokens": Case("transformer", Recipe(accumulate=2, clip=1.0), samples=32, tokens=True),
    "tokens, bf16": Case("transformer", Recipe("bf16", accumulate=4), samples=32, tokens=True),
}


def made(case: Case) -> Task:
    """The task, its training data handed out by a DistributedSampler."""
    task = make(TASKS[case.task], samples=case.samples + case.samples // 4)
    data = task.train.dataset
    assert len(data) == case.samples  # type: ignore[arg-type]
    return task._replace(train=DataLoader(data, task.train.batch_size, sampler=DistributedSampler(data, seed=5)))


def main() -> None:
    """All cases; the losses differ in scale, what they led to does not."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for name, case in CASES.items():
        theirs = plain.train_on_ranks(made(case), case.recipe, tokens=case.tokens)
        ours = train(made(case), case.recipe, tokens=case.tokens)
        try:
            assert_equal(ours._replace(losses=[]), theirs._replace(losses=[]))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        print(f"equal: {name}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
