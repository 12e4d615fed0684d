from __future__ import annotations

from checking import lines

TRAIN = """
import torch
def train(model, loader, optimizer):
    for i, x in enumerate(loader):
        model(x.cuda()).sum().backward()
        optimizer.step()
        {statement}
"""


def test_every_step() -> None:
    assert lines("FO103", TRAIN.format(statement="torch.cuda.synchronize()")) == [6]


def test_now_and_then_after_the_loop_or_in_a_measurement() -> None:
    assert lines("FO103", TRAIN.format(statement="if i % 100 == 0: torch.cuda.synchronize()")) == []
    assert lines("FO103", TRAIN.format(statement="pass") + "    torch.cuda.synchronize()\n") == []
    timed = "torch.cuda.synchronize(); took = time.perf_counter() - start"
    assert lines("FO103", TRAIN.format(statement=timed)) == []


def test_a_function_whose_names_only_sound_like_time_measures_none() -> None:
    assert lines("FO103", TRAIN.format(statement="torch.cuda.synchronize(); steps_this_time = i")) == [6]
