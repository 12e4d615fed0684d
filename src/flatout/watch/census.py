"""What the script's names hold: tensors and graphs, counted now and then, to see what grows from step to step.

A census walks from the local and global names of the user's own code through containers and the user's own objects.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from flatout.steps.places import is_users_own

_MOST_OBJECTS = 200_000
_MOST_NODES = 50_000
_DEEPEST = 4
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_LEAVES = (str, bytes, int, float, bool, type(None))


class Held(NamedTuple):
    """What a name holds: bytes and number of tensors, and nodes of the graphs that these are the ends of."""

    size_bytes: int
    tensors: int
    nodes: int


class Holder(NamedTuple):
    """A name of the script: ``losses.sum``.

    `file` and `function` are where the name is, `owner` the class of the object whose attribute it is, if it is one.
    """

    name: str
    file: str
    function: str
    owner: type | None


def census() -> dict[Holder, Held]:
    """What every name of the user's own code holds, names that hold no tensor left out."""
    walk = _Walk()
    found: dict[Holder, Held] = {}
    for file, function, name, value in _names():
        for holder, held in walk.of(name, value, file, function):
            if held.tensors:
                found[holder] = held
    return found


def _names() -> Iterator[tuple[str, str, str, Any]]:
    """Every local and global name of the user's own code: file, function, name, value."""
    seen: set[int] = set()
    frame = sys._getframe(1)
    current: Any = frame
    while current is not None:
        code = current.f_code
        if is_users_own(code):
            if code.co_name != "<module>":
                yield from ((code.co_filename, code.co_name, name, value) for name, value in current.f_locals.items())
            names = current.f_globals
            if id(names) not in seen:
                seen.add(id(names))
                yield from (
                    (code.co_filename, "<module>", name, value)
                    for name, value in list(names.items())
                    if not name.startswith("__")
                )
        current = current.f_back


class _Walk:
    """Goes through objects, each once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._left = _MOST_OBJECTS

    def of(self, name: str, value: Any, file: str, function: str) -> Iterator[tuple[Holder, Held]]:
        """The name itself, or the attributes of the user's own object that it names."""
        if isinstance(value, (*_LEAVES, type)) or id(value) in self._seen:
            return
        kind = type(value)
        if _is_users_object(kind):
            self._seen.add(id(value))
            for attribute, held in list(vars(value).items()):
                total = self._held(held, _DEEPEST)
                yield Holder(f"{name}.{attribute}", file, function, kind), total
        elif issubclass(kind, (torch.Tensor, *_CONTAINERS)):
            yield Holder(name, file, function, None), self._held(value, _DEEPEST)

    def _held(self, value: Any, depth: int) -> Held:
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            if id(value) in self._seen or issubclass(kind, torch.nn.Parameter):
                return Held(0, 0, 0)
            self._seen.add(id(value))
            grad_fn = value.grad_fn
            return Held(value.numel() * value.element_size(), 1, 0 if grad_fn is None else _nodes(grad_fn))
        if not depth or not self._left or id(value) in self._seen:
            return Held(0, 0, 0)
        if issubclass(kind, _CONTAINERS):
            self._seen.add(id(value))
            return self._all(value.values() if issubclass(kind, dict) else value, depth - 1)
        if _is_users_object(kind):
            self._seen.add(id(value))
            return self._all(vars(value).values(), depth - 1)
        return Held(0, 0, 0)

    def _all(self, values: Iterable[Any], depth: int) -> Held:
        size_bytes = tensors = nodes = 0
        for value in list(values):
            if isinstance(value, _LEAVES):
                continue
            self._left -= 1
            if self._left <= 0:
                break
            held = self._held(value, depth)
            size_bytes, tensors = size_bytes + held.size_bytes, tensors + held.tensors
            nodes = max(nodes, held.nodes) if held.nodes >= _MOST_NODES else nodes + held.nodes
        return Held(size_bytes, tensors, nodes)


def _is_users_object(kind: type) -> bool:
    """Whether objects of that class are the script's own and hold what they hold in attributes."""
    if issubclass(kind, (torch.nn.Module, torch.optim.Optimizer, torch.utils.data.Dataset)):
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if kind.__dictoffset__ == 0 or file is None:
        return False
    code = next((m.__code__ for m in vars(kind).values() if hasattr(m, "__code__")), None)
    return code is not None and is_users_own(code)


def _nodes(grad_fn: Any) -> int:
    """How many nodes the graph has that ends there, up to a limit."""
    seen = {grad_fn}
    waiting = [grad_fn]
    while waiting and len(seen) < _MOST_NODES:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen)
