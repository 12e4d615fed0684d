"""Seeds in the workers: each batch is fetched under a number of its own, whichever worker fetches it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from flatout.loop.data.streams import generators_inside, numpy_global

MASK = 2**64 - 1


def mix(*numbers: int) -> int:
    """One 64-bit number that depends on every bit of all `numbers`; neighbours give unrelated results.

    The finaliser is splitmix64's (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    mixed = 0
    for number in numbers:
        mixed = (mixed + (number & MASK) + 0x9E3779B97F4A7C15) & MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        mixed ^= mixed >> 31
    return mixed


class Task:
    """What a worker is to fetch, and the seed to do it under.

    A worker reads its task from a pipe immediately before it fetches it. Reading it sets the seeds and leaves the bare
    indices: the dataset, the fetching and the collating are none the wiser, and the draws depend on the batch alone.
    """

    def __init__(self, indices: Any, seed: int) -> None:
        self._indices = indices
        self._seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, (self._indices, self._seed)


_in_worker: dict[str, Any] = {}  # the parts of the loader whose own generators are seeded too


def _receive(indices: Any, seed: int) -> Any:
    seed_all(seed, generators_inside(_in_worker))
    return indices


def seed_all(seed: int, own: Mapping[str, Any]) -> None:
    """Seed the global streams (CUDA's where this process uses it) and `own` generators, each with its own number."""
    random.seed(mix(seed, 1))
    torch.default_generator.manual_seed(mix(seed, 2))  # torch.manual_seed looks for every kind of GPU: 130 us
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(mix(seed, 2))
    if "numpy" in sys.modules:
        numpy_global().seed(_words(mix(seed, 3)))
    for position, generator in enumerate(own.values(), start=4):
        number = mix(seed, position)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(number)
        elif hasattr(generator, "bit_generator"):
            generator.bit_generator.state = type(generator.bit_generator)(number).state
        else:
            generator.seed(number if isinstance(generator, random.Random) else _words(number))


def _words(number: int) -> list[int]:
    return [number & 0xFFFFFFFF, number >> 32]


class WorkerStart:
    """The user's `worker_init_fn`, and a note of the parts whose generators the tasks seed."""

    def __init__(self, user: Callable[[int], None] | None, parts: dict[str, Any]) -> None:
        self._user = user
        self._parts = parts

    def __call__(self, worker: int) -> None:
        _in_worker.update(self._parts)
        if self._user is not None:
            self._user(worker)
