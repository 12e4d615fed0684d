from __future__ import annotations

import pytest
from checking import hits, lines

DATASET = """
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        self.rng = {made}
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return {draw}
{rest}
"""
INIT = "import numpy as np, random, torch\nfrom torch.utils.data import DataLoader\n"


def dataset(made: str, draw: str = "self.rng.random()", rest: str = "") -> str:
    return DATASET.format(made=made, draw=draw, rest=rest)


@pytest.mark.parametrize(
    "made", ["np.random.default_rng(0)", "np.random.RandomState(0)", "random.Random(0)", "np.random.default_rng()"]
)
def test_a_generator_that_is_copied(made: str) -> None:
    (hit,) = hits("FO307", dataset(made))
    assert hit.node.lineno == 11
    assert "a copy of `self.rng` in the same state" in hit.message


@pytest.mark.parametrize(
    "source",
    [
        dataset("np.random.default_rng(0)", rest="loader = DataLoader(Rows(), num_workers=0)"),
        dataset("np.random.default_rng(0)", draw="index"),
        dataset("np.random.default_rng(0)", rest="def seed(i):\n    torch.utils.data.get_worker_info()"),
        dataset("make(0)"),
        dataset("None", draw="np.random.rand()"),  # PyTorch seeds that one
    ],
)
def test_other_generators(source: str) -> None:
    assert lines("FO307", source) == []


@pytest.mark.parametrize(
    "function",
    [
        "def init(number):\n    np.random.seed(42)\n",
        "def init(number):\n    torch.manual_seed(args.seed)\n",
        "init = lambda _: random.seed(0)\n",
    ],
)
def test_seeded_alike(function: str) -> None:
    code = INIT + function + "DataLoader(ds, num_workers=2, worker_init_fn=init)"
    assert len(lines("FO307", code)) == 1
    assert lines("FO307", code.replace("num_workers=2", "num_workers=0")) == []


@pytest.mark.parametrize(
    "function",
    [
        "def init(number):\n    np.random.seed(42 + number)\n",
        "def init(number):\n    np.random.seed(torch.initial_seed() % 2**32)\n",
        "def init(number):\n    np.random.seed(np.random.get_state()[1][0] + number)\n",
        "def init(number):\n    np.random.seed(worker_seed)\n",
        "def init(number, seed):\n    np.random.seed(seed)\n",
    ],
)
def test_seeded_apart(function: str) -> None:
    assert lines("FO307", INIT + function + "DataLoader(ds, num_workers=2, worker_init_fn=init)") == []


def test_what_workers_draw() -> None:
    import multiprocessing

    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("classes made in a test reach worker processes by fork only")

    def drawn(made: str, draw: str) -> list[list[float]]:
        names: dict[str, object] = {}
        rest = "loader = DataLoader(Rows(), num_workers=2, multiprocessing_context='fork')"
        exec(dataset(made, draw, rest), names)
        return [[x.item() for x in names["loader"]] for _ in range(2)]  # type: ignore[attr-defined]

    first, second = drawn("np.random.default_rng(0)", "self.rng.random()")
    assert first[0::2] == first[1::2]  # two workers take turns, and draw the same
    assert first == second  # so does each epoch
    first, second = drawn("None", "np.random.rand()")
    assert len({*first, *second}) == 16
