"""Random number streams: captured, put back, and seeded in the workers."""

from __future__ import annotations

import functools
import io
import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from flatout.loop.cursor import Cursor
from flatout.loop.data.inside import fingerprint, things_inside
from flatout.loop.data.loader import PreparedLoader
from flatout.loop.data.seeding import Streams, capture_rng, generators_inside, mix, restore_rng, same_state, seed_all
from flatout.loop.processes.distributed import Ranks

CPU = torch.device("cpu")


def draw() -> list[Any]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(3).tolist()]


def through_a_file(state: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def test_global_streams_come_back_through_a_file_without_pickled_classes() -> None:
    draw()  # leaves a spare gaussian behind in Python's and NumPy's streams
    state = through_a_file(capture_rng(CPU))
    first = draw()
    assert draw() != first
    restore_rng(state, CPU)
    assert draw() == first


class Holder:
    def __init__(self) -> None:
        self.torch = torch.Generator().manual_seed(1)
        self.python = random.Random(2)
        self.numpy = [np.random.default_rng(3), np.random.RandomState(4), np.random.Generator(np.random.MT19937(5))]
        self.again = self.torch
        self.shared = (torch.default_generator, random.random)

    def collate(self, batch: Any, scale: Any) -> Any:
        return batch

    def draw(self) -> list[Any]:
        values = [torch.rand(1, generator=self.torch).item(), self.python.random(), self.python.gauss(0, 1)]
        return values + [generator.normal() for generator in self.numpy]


def test_generators_kept_in_objects_are_found_once_and_come_back() -> None:
    holder = Holder()
    parts = {"collate": functools.partial(holder.collate, scale=random.Random(6))}
    assert len(generators_inside(parts)) == 6
    streams = Streams(lambda: parts)
    holder.draw()
    state = through_a_file(streams.capture())
    first = holder.draw()
    assert not same_state(state, streams.capture())
    streams.restore(state)
    assert same_state(state, streams.capture())
    assert holder.draw() == first


def test_a_generator_that_is_no_longer_there_is_left_out() -> None:
    parts: dict[str, Any] = {"a": random.Random(1)}
    streams = Streams(lambda: parts)
    state = streams.capture_own()
    parts["b"] = parts.pop("a")
    streams.restore_own(state)
    assert same_state(streams.capture_own(), {"b": state["a"]})


def test_looking_inside_ends_on_loops_and_on_large_data() -> None:
    holder = Holder()
    holder.me = holder  # type: ignore[attr-defined]
    holder.large = list(range(10_000))  # type: ignore[attr-defined]
    assert len(list(things_inside({"holder": holder}))) < 60


class Plain:
    def __init__(self) -> None:
        self.number, self.words, self.weights = 0.5, ["a"], torch.zeros(2)
        self.inner = type("Inner", (), {})()
        self.inner.size = 224


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "number", 0.6),
        lambda p: p.words.append("b"),
        lambda p: p.weights.add_(1),
        lambda p: setattr(p.inner, "size", 256),
        lambda p: setattr(p, "inner", None),
        lambda p: setattr(p, "extra", 1),
    ],
)
def test_a_fingerprint_tells_a_change(change: Any) -> None:
    plain = Plain()
    before = fingerprint({"dataset": plain})
    assert fingerprint({"dataset": plain}) == before
    change(plain)
    assert fingerprint({"dataset": plain}) != before


@given(st.integers(-(2**63), 2**64 - 1), st.integers(0, 10**6))
def test_mix_is_a_64_bit_number_and_depends_on_each_argument(base: int, number: int) -> None:
    assert 0 <= mix(base, number) < 2**64
    assert mix(base, number) != mix(base, number + 1)
    assert mix(base, number) != mix(base + 1, number)


def test_mix_of_neighbours_is_unrelated() -> None:
    mixed = [mix(0, number) for number in range(4096)]
    assert len(set(mixed)) == 4096
    flipped = [bin(one ^ other).count("1") for one, other in itertools.pairwise(mixed)]
    assert 31 < sum(flipped) / len(flipped) < 33  # half of 64 bits


def test_seeding_covers_the_global_streams_and_own_generators() -> None:
    holder = Holder()
    own = generators_inside({"holder": holder})
    seed_all(7, own)
    first = draw() + holder.draw()
    seed_all(7, own)
    assert draw() + holder.draw() == first
    seed_all(8, own)
    assert all(one != other for one, other in zip(draw() + holder.draw(), first))


class Noise(Dataset[Any]):
    """A sample is what each stream gives when it is fetched."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(0)
        self.python = random.Random(0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        draws = [np.random.rand(), random.random(), torch.rand(()).item(), self.own.random(), self.python.random()]
        return index, torch.tensor(draws, dtype=torch.float64)


def augmented(workers: int, *, persistent: bool = False, epochs: int = 2) -> torch.Tensor:
    """The draws of each epoch, sample by sample in the order of the indices: of shape (epochs, 12, 5)."""
    torch.manual_seed(0)
    source = DataLoader(Noise(), 2, shuffle=True, num_workers=workers, persistent_workers=persistent)
    loader = PreparedLoader(source, CPU, Ranks(), Cursor())
    result = torch.zeros(epochs, 12, 5, dtype=torch.float64)
    for epoch in range(epochs):
        for indices, draws in loader:
            result[epoch, indices] = draws
    return result


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_augmentation_differs_by_sample_worker_and_epoch_and_not_by_the_number_of_workers() -> None:
    one = augmented(1)
    for stream in range(5):
        assert one[:, :, stream].unique().numel() == 24  # also across two workers and two epochs, for it is equal:
    assert torch.equal(augmented(2), one)
    assert torch.equal(augmented(3), one)


def test_augmentation_differs_by_epoch_where_the_users_own_workers_persist() -> None:
    draws = augmented(2, persistent=True, epochs=3)
    for stream in range(5):
        assert draws[:, :, stream].unique().numel() == 36


def test_plain_workers_repeat_a_generator_of_the_datasets_own() -> None:
    """The trap that seeding each batch avoids: every worker, in every epoch, holds a copy in the same state."""
    torch.manual_seed(0)
    source = DataLoader(Noise(), 2, num_workers=2)
    seen = torch.cat([draws[:, 3] for _ in range(2) for _, draws in source])
    assert seen.unique().numel() == 6  # of 24
