"""Loop against the plain loop in one process: the same weights, bit for bit, or a stated distance.

Equal means all of: weights and buffers, the optimizer's state, every loss, the learning rates, the loss scale, and the
state of the random generator, so that a run that went on would stay equal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import parity_plain as plain
import pytest
from parity_loop import assert_equal, make, train
from parity_plain import Recipe
from parity_tasks import TASKS, Task, cnn, full, mlp, transformer


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_short_last_window_and_batch(task: Callable[..., Task], precision: str, accumulate: int) -> None:
    recipe = Recipe(precision, accumulate, clip=1.0, scheduler=True, evaluate=True)
    theirs = plain.train(make(task), recipe)
    assert_equal(train(make(task), recipe), theirs)
    assert theirs.losses[-1] != theirs.losses[0]


@pytest.mark.parametrize("accumulate", [2, 3, 4])
@pytest.mark.parametrize("task", [mlp, cnn], ids=["mlp", "cnn"])
def test_full_windows_are_the_tutorials_division(task: Callable[..., Task], accumulate: int) -> None:
    recipe = Recipe(accumulate=accumulate)
    make_full = partial(full, 8 * accumulate, 3, task, 8)
    assert_equal(train(make(make_full), recipe)._replace(rates=[]), plain.train_by_division(make(make_full), recipe))


@pytest.mark.parametrize("recipe", [Recipe(clip=0.05), Recipe(clip=1e6), Recipe("fp16", 2, clip=0.05)])
def test_clipping(recipe: Recipe) -> None:
    assert_equal(train(make(mlp), recipe), plain.train(make(mlp), recipe))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("workers", [1, 2])
def test_workers(workers: int, optimizer: str) -> None:
    recipe = Recipe(accumulate=2, optimizer=optimizer, evaluate=True)
    with_workers = partial(cnn, num_workers=workers)
    theirs = plain.train(make(with_workers), recipe)
    assert_equal(train(make(with_workers), recipe), theirs)


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_token_weights(precision: str, accumulate: int, reduction: str) -> None:
    recipe = Recipe(precision, accumulate, clip=1.0, scheduler=True)
    theirs = plain.train_on_tokens(make(transformer), recipe)
    ours = train(make(transformer), recipe, tokens=True, reduction=reduction)
    assert_equal(ours._replace(losses=[]), theirs)
