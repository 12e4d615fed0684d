"""Which code runs every step."""

from __future__ import annotations

import pytest
from asking import module, probes

TRAIN = """
import torch
def train(model, loader, optimizer):
    probe(1)
    for epoch in range(3):
        probe(2)
        for x in loader:
            probe(3)
            model(x).sum().backward()
            optimizer.step()
        scheduler.step()
        probe(4)
"""


def regions(source: str) -> list[str | None]:
    parsed = module(source)
    return [region.kind if (region := parsed.region(call)) else None for call in probes(parsed)]


def test_only_the_inner_loop_trains() -> None:
    assert regions(TRAIN) == [None, None, "train", None]


def test_what_the_loop_calls_is_hot_and_what_it_calls_rarely_is_not() -> None:
    source = """
    def log(x):
        probe(x)
    def every(x):
        probe(x)
    for i, x in enumerate(loader):
        loss = every(x)
        loss.backward()
        if i % 100 == 0:
            log(loss)
    """
    assert regions(source) == [None, "called"]


def test_a_step_function_makes_its_callers_loop_hot() -> None:
    source = """
    def train_step(x):
        probe(x)
        loss.backward()
        optimizer.step()
    def main():
        for epoch in range(2):
            for x in loader:
                train_step(x)
                probe(x)
            probe(epoch)
    """
    assert regions(source) == ["called", "train", None]


def test_a_closure_belongs_to_the_loop_around_it() -> None:
    source = """
    for x in loader:
        def closure():
            loss = f(x)
            loss.backward()
            return loss
        optimizer.step(closure)
        probe(x)
    """
    assert regions(source) == ["train"]


def test_forward_of_a_layer_only() -> None:
    source = """
    from torch import nn
    class Net(nn.Module):
        def forward(self, x):
            probe(x)
    class Deeper(Net):
        def forward(self, x):
            probe(x)
    class Other:
        def forward(self, x):
            probe(x)
    """
    assert regions(source) == ["forward", "forward", None]


@pytest.mark.parametrize(
    ("condition", "rare"),
    [
        ("i % 100 == 0", True),
        ("should_log(i)", True),
        ("verbose", True),
        ("rank == 0", False),
        ("phase == 'train'", False),
        ("use_amp", False),
        ("scaler is not None", False),
        ("self.training", False),
        ("is_main_process()", False),
        ("rank == 0 and i % 10 == 0", True),
        ("not use_amp", False),
    ],
)
def test_rare(condition: str, rare: bool) -> None:
    parsed = module(f"for i in loader:\n    if {condition}:\n        probe(i)\n    loss.backward()")
    assert parsed.is_rare(probes(parsed)[0]) is rare


def test_what_stands_behind_an_and_is_as_rare_as_what_stands_before() -> None:
    parsed = module(
        "for i in loader:\n    if i % 100 == 0 and probe(i):\n        pass\n    if use_amp and probe(i):\n        pass"
    )
    assert [parsed.is_rare(call) for call in probes(parsed)] == [True, False]


def test_not_every_step_is_an_optimizers() -> None:
    source = "for t in range(9):\n    state = env.step(action)\n    lr_scheduler.step()\n    probe(t)"
    assert regions(source) == [None]


def test_whether_there_is_a_gpu_is_the_same_each_time() -> None:
    parsed = module(
        "for x in a:\n    if torch.cuda.is_available():\n        probe(x)\n    if ready():\n        probe(x)\n"
    )
    assert [parsed.is_rare(call) for call in probes(parsed)] == [False, True]
