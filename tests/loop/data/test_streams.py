"""Random number streams: captured, put back, and seeded all at once."""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import numpy as np
import torch

from flatout.loop.data.inside import things_inside
from flatout.loop.data.seeding import seed_all
from flatout.loop.data.streams import Streams, capture_rng, generators_inside, restore_rng, same_state

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


def test_seeding_covers_the_global_streams_and_own_generators() -> None:
    holder = Holder()
    own = generators_inside({"holder": holder})
    seed_all(7, own)
    first = draw() + holder.draw()
    seed_all(7, own)
    assert draw() + holder.draw() == first
    seed_all(8, own)
    assert all(one != other for one, other in zip(draw() + holder.draw(), first))


def test_looking_inside_ends_on_loops_and_on_large_data() -> None:
    holder = Holder()
    holder.me = holder  # type: ignore[attr-defined]
    holder.large = list(range(10_000))  # type: ignore[attr-defined]
    assert len(list(things_inside({"holder": holder}))) < 60
