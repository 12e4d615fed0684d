"""The GPU's random numbers: seeded, reproducible, and apart from the CPU's, which stay as the script left them."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch


class Source(Protocol):
    """A GPU's generator: what it draws next is decided by its seed and by how much it has drawn."""

    def next_seed(self) -> int: ...


_sources: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_default: list[Source] = []


def register(address: int, source: Source) -> None:
    """Remember a generator of a GPU by its address in C++, which hands it to kernels in other Python objects."""
    _sources[address] = source


def set_default(source: Source) -> None:
    """The generator that draws where the script names none."""
    _default[:] = [source]


def source_of(generator: Any) -> Source | None:
    """The GPU's generator that a kernel was given, or None where it is the CPU's."""
    return _sources.get(generator._cdata)


class Region:
    """A region in which random numbers on the CPU are those that the GPU's generator would draw next."""

    def __init__(self, generator: Any = None) -> None:
        self._source = _default[0] if generator is None else source_of(generator)

    def __enter__(self) -> None:
        self._outside = torch.get_rng_state()
        if self._source is not None:
            torch.default_generator.manual_seed(self._source.next_seed())

    def __exit__(self, *exception: object) -> None:
        torch.set_rng_state(self._outside)
