"""Looking into the objects that a user handed over: what their attributes hold, without running any of their code."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

MOST_THINGS = 1000  # looked at, nearest first
LONGEST = 100  # a list or a dict beyond that is data
LEAVES = str | bytes | int | float | complex | None | type | ModuleType | FunctionType | torch.Tensor


def things_inside(parts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that is reached from `parts` through attributes and short containers, each once, with its path."""
    waiting: deque[tuple[str, Any]] = deque(parts.items())
    seen: set[int] = set()
    while waiting and len(seen) < MOST_THINGS:
        path, thing = waiting.popleft()
        if not isinstance(thing, LEAVES):
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            waiting.extend((f"{path}.{name}", part) for name, part in _parts_of(thing))
        yield path, thing


def _parts_of(thing: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(thing, MethodType):
        yield "__self__", thing.__self__
    elif isinstance(thing, functools.partial):
        yield from (("func", thing.func), ("args", thing.args), ("keywords", thing.keywords))
    elif isinstance(thing, dict | list | tuple) and len(thing) <= LONGEST:
        yield from thing.items() if isinstance(thing, dict) else enumerate(thing)
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict):
        yield from list(attributes.items())


def fingerprint(parts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A description of `parts` that changes when an attribute in them is set, or a container or tensor is changed.

    Not seen: a value written into a list or array in place.
    """
    return [(path, _describe(thing)) for path, thing in things_inside(parts)]


def _describe(thing: Any) -> Any:
    if isinstance(thing, str | bytes | int | float | complex | None):
        return thing
    if isinstance(thing, torch.Tensor):
        return id(thing), thing._version
    return id(thing), len(thing) if isinstance(thing, list | dict | set | tuple) else 0
