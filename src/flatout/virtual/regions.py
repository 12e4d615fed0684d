"""Which operations belong to a compiled region, and which tensors flow between them.

Forward, an operation belongs to the region that the host is in. Backward, it belongs to the region in which its node
of autograd was made: nodes are numbered in the order in which they are made, so a region is a span of numbers.
Storages get numbers only inside regions; a script that compiles nothing pays for nothing here.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from flatout.recording.tape import Call, Piece
from flatout.virtual.tensor import Allocation, allocation_of, is_virtual

_UNKNOWN: Piece = (-1, 0)
_node: Any = torch._C._current_autograd_node
_next_node_number: Any = torch._C._autograd._get_sequence_nr


class Region:
    """What was compiled, with what the compiler was asked for."""

    def __init__(self, number: int, *, graph: bool, fuses: bool) -> None:
        self.number = number
        self.graph = graph
        self.fuses = fuses


class _Here(threading.local):
    region: Region | None = None
    call: int | None = None
    began = 0
    outside = 0


here = _Here()
"""Where this thread is."""


def inside() -> bool:
    """Whether this thread runs what a compiler would have compiled."""
    return here.region is not None and not here.outside


@contextmanager
def left() -> Iterator[None]:
    """What runs meanwhile is not compiled, though a compiled region calls it (``torch.compiler.disable``)."""
    here.outside += 1
    try:
        yield
    finally:
        here.outside -= 1


class Regions:
    """The calls of compiled regions of one process, for the tape."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.kept: set[int] = set()
        self._numbers: weakref.WeakKeyDictionary[Allocation, int] = weakref.WeakKeyDictionary()
        self._count = self._known = 0
        self._made: dict[int, weakref.ref[Allocation]] = {}
        self._written: dict[int, weakref.ref[Allocation]] = {}
        self._made_backward: dict[int, weakref.ref[Allocation]] = {}
        self._begins: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._backward: dict[int, int] = {}

    @contextmanager
    def entered(self, region: Region, arguments: Any) -> Iterator[None]:
        """The host is inside a region; one inside another belongs to it."""
        if here.region is not None:
            yield
            return
        here.region = region
        size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(arguments))
        self._begin(region, size_bytes)
        try:
            yield
        finally:
            self._end()
            here.region = here.call = None

    def returned(self, result: Any) -> None:
        """A region gave that to its caller."""
        self.used_outside(tensors_in(result))

    def broken(self) -> None:
        """The host has to know a value here: what follows is compiled apart (a graph break)."""
        if here.region is not None:
            self._end()
            self._begin(here.region, 0)

    def call(self, phase: str) -> int | None:
        """The call that the operation which is issued now belongs to."""
        if here.call is not None:
            return None if here.outside else here.call
        if phase != "backward" or not self._begins:
            return None
        node = _node()
        if node is None:
            return None
        number = node._sequence_nr()
        at = bisect.bisect_right(self._begins, number) - 1
        if at < 0 or number >= self._spans[at][0]:
            return None
        return self._backward_of(self._spans[at][1])

    def pieces(self, tensors: Sequence[Any]) -> tuple[Piece, ...]:
        """Where these tensors begin."""
        return tuple([self._piece(tensor) for tensor in tensors])

    def made(self, tensors: Sequence[Any], *, backward: bool) -> tuple[Piece, ...]:
        """The same for tensors that a region has just made."""
        pieces = self.pieces(tensors)
        fresh = self._made_backward if backward else self._made
        for tensor, (number, _) in zip(tensors, pieces):
            if number >= 0:
                fresh[number] = weakref.ref(allocation_of(tensor))
        return pieces

    def written(self, tensors: Sequence[Any], *, backward: bool) -> None:
        """A region wrote into these; what is still there when it ends was somebody else's, or is for somebody else."""
        fresh = self._made_backward if backward else self._written
        saved = torch.is_grad_enabled()
        for tensor, (number, _) in zip(tensors, self.pieces(tensors)):
            # What is filled in where autograd follows lives on for the backward pass.
            if number >= 0 and (backward or not saved or number < self._known):
                fresh[number] = weakref.ref(allocation_of(tensor))

    def used_outside(self, tensors: Sequence[Any]) -> None:
        """Something outside of all regions uses these."""
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and is_virtual(tensor) and tensor.layout is torch.strided:
                number = self._numbers.get(allocation_of(tensor))
                if number is not None:
                    self.kept.add(number)

    def backward_ended(self) -> None:
        """What backward passes made and is still there are gradients, for whoever reads them."""
        self._keep_living(self._made_backward)
        self._backward.clear()

    def _keep_living(self, fresh: dict[int, weakref.ref[Allocation]]) -> None:
        self.kept.update(number for number, allocation in fresh.items() if allocation() is not None)
        fresh.clear()

    def _begin(self, region: Region, input_bytes: int) -> None:
        here.call = len(self.calls)
        here.began = _next_node_number()
        self._known = self._count
        self.calls.append(
            Call(
                region.number,
                graph=region.graph,
                differentiable=torch.is_grad_enabled(),
                input_bytes=input_bytes,
                fuses=region.fuses,
            )
        )

    def _end(self) -> None:
        if not torch.is_grad_enabled():
            self._keep_living(self._made)  # with autograd, what backward reads lives on too
        self._made.clear()
        self._keep_living(self._written)
        end = _next_node_number()
        if end > here.began and here.call is not None:
            self._begins.append(here.began)
            self._spans.append((end, here.call))

    def _backward_of(self, call: int) -> int:
        found = self._backward.get(call)
        if found is None:
            found = self._backward[call] = len(self.calls)
            forward = self.calls[call]
            self.calls.append(Call(forward.region, call, forward.graph, True, 0, forward.fuses))
        return found

    def _piece(self, tensor: Any) -> Piece:
        if not is_virtual(tensor) or tensor.layout is not torch.strided:
            return _UNKNOWN
        allocation = allocation_of(tensor)
        number = self._numbers.get(allocation)
        if number is None:
            number = self._numbers[allocation] = self._count
            self._count += 1
        return number, int(tensor.storage_offset()) * tensor.element_size()


def tensors_in(value: Any) -> list[Any]:
    """The virtual tensors in a nest of tuples, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value] if is_virtual(value) else []
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
