"""Numbers that are read when they have arrived."""

from __future__ import annotations

import pytest
import torch

from flatout.errors import TrainingError
from flatout.loop.later import GATHERED, Later
from flatout.loop.windows.losses import NaNWatch, Where


class Slow:
    """Copies that arrive when told. The code that gathers, polls and reads them is the real one."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.here = 0
        self.waits = 0

    def send(self, stacked: torch.Tensor) -> tuple[torch.Tensor, Slow.Arrival]:
        self.sent.append(len(stacked))
        return stacked.clone(), Slow.Arrival(self, len(self.sent))

    class Arrival:
        def __init__(self, slow: Slow, number: int) -> None:
            self.slow, self.number = slow, number

        def query(self) -> bool:
            return self.number <= self.slow.here

        def synchronize(self) -> None:
            self.slow.waits += 1


def test_numbers_come_in_order_and_once() -> None:
    slow = Slow()
    later = Later(slow.send)
    for i in range(3 * GATHERED + 5):
        later.add(torch.tensor([float(i)]), f"note {i}")
    assert slow.sent == [GATHERED] * 3
    assert list(later.arrived()) == []
    slow.here = 2
    assert list(later.arrived()) == [(float(i), f"note {i}") for i in range(2 * GATHERED)]
    assert list(later.arrived()) == []
    assert [number for number, _ in later.all()] == [float(i) for i in range(2 * GATHERED, 3 * GATHERED + 5)]
    assert list(later.all()) == []
    assert slow.sent[3:] == [5]


def test_a_cpu_has_everything_at_once() -> None:
    later = Later()
    for i in range(GATHERED):
        later.add(torch.tensor(i), i)
    assert [number for number, _ in later.arrived()] == list(range(GATHERED))


def test_a_nan_is_noticed_late_and_dated_right() -> None:
    slow = Slow()
    watch = NaNWatch(Later(slow.send))
    step = 0

    def see(value: float) -> None:
        nonlocal step
        step += 1
        watch.see_later(torch.tensor(value), Where(2, step, step))

    for i in range(GATHERED + 20):
        see(float("nan") if i >= 9 else 1.0)
    slow.here = 1
    with pytest.raises(TrainingError, match=r"NaN in epoch 2, batch 10 \(step 10\) \(noticed at step 85: the"):
        see(1.0)
    assert slow.waits == 0


def test_a_nan_is_noticed_at_the_latest_when_all_are_looked_at() -> None:
    watch = NaNWatch(Later(Slow().send))
    watch.see_later(torch.tensor(1.0, dtype=torch.bfloat16), Where(0, None, 1))
    watch.see_later(torch.tensor(float("nan")), Where(0, None, 2))
    with pytest.raises(TrainingError, match=r"NaN in epoch 0 \(step 2\)") as caught:
        watch.settle(Where(0, None, 2))
    assert "\n" not in str(caught.value)
    watch.settle(Where(0, None, 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU: copies into pinned memory")
def test_a_gpu_is_read_without_waiting() -> None:
    later = Later()
    for i in range(GATHERED):
        later.add(torch.tensor(float(i), device="cuda"), i)
    assert [number for number, _ in later.all()] == [float(i) for i in range(GATHERED)]
