"""Copying ahead: while the GPU works on a batch, the next one is copied to it on a side stream."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from flatout.loop.device import move

T = TypeVar("T")


class Ahead(Generic[T]):
    """Pulls a thing before it is asked for, so that one knows whether there is one.

    What `pull` raises is raised when its turn has come: the thing before it is handed out first.
    """

    def __init__(self, pull: Callable[[], T]) -> None:
        self._pull = pull
        self._waiting: tuple[T] | Exception | None = None

    def fill(self) -> None:
        """Pull, if nothing is waiting."""
        if self._waiting is None:
            try:
                self._waiting = (self._pull(),)
            except Exception as error:
                self._waiting = error

    def take(self) -> T:
        """The next thing."""
        if self._waiting is None:
            try:
                return self._pull()
            except Exception as error:
                self._waiting = error
                raise
        taken = self._waiting
        if isinstance(taken, Exception):
            raise taken
        self._waiting = None
        return taken[0]

    @property
    def ended(self) -> bool:
        """Whether a pull has found that there is nothing more."""
        return isinstance(self._waiting, StopIteration)


class Machinery(Protocol):
    """What copying ahead needs of a device: `torch.cuda` has it."""

    def Stream(self, device: torch.device) -> Any: ...
    def Event(self) -> Any: ...
    def stream(self, stream: Any) -> Any: ...
    def current_stream(self, device: torch.device) -> Any: ...


class Sent(NamedTuple):
    """A batch that is on its way. `arrived`: the event at the copy's end; None where it was not copied aside."""

    batch: Any
    arrived: Any | None


class Copier:
    """Copies batches to `device` on a stream of its own.

    Three things can go wrong, and each has its line here: the training stream reads a batch before it has arrived (it
    waits for the event); the batch's memory is given to a later copy while the training stream still reads it
    (`record_stream`); the pinned source is freed or written to while it is being read (it is held until the event).
    """

    def __init__(self, device: torch.device, machinery: Machinery = torch.cuda) -> None:
        self._device = device
        self._machinery = machinery
        self._side = machinery.Stream(device)
        self._held: deque[tuple[Any, Any]] = deque()

    def send(self, batch: Any) -> Sent:
        """Start to copy. The host does not wait."""
        self.let_go()
        tensors = tensors_in(batch)
        if tensors is None or not tensors or any(tensor.device.type != "cpu" for tensor in tensors):
            return Sent(move(batch, self._device), None)  # made on the training stream, or not known from inside
        with self._machinery.stream(self._side):
            moved = move(batch, self._device, non_blocking=True)
            arrived = self._machinery.Event()
            arrived.record(self._side)
        self._held.append((arrived, tensors))  # not the batch: some move themselves in place
        return Sent(moved, arrived)

    def receive(self, sent: Sent) -> Any:
        """The batch, for use on the training stream, which waits for its arrival; the host does not."""
        if sent.arrived is not None:
            stream = self._machinery.current_stream(self._device)
            stream.wait_event(sent.arrived)
            for tensor in tensors_in(sent.batch) or ():
                tensor.record_stream(stream)
        return sent.batch

    def let_go(self) -> None:
        """Give up the sources of copies that are done."""
        while self._held and self._held[0][0].query():
            self._held.popleft()


def tensors_in(batch: Any) -> list[torch.Tensor] | None:
    """Every tensor in a batch, as `move` finds them. None where it holds an object that cannot be looked into."""
    found: list[torch.Tensor] = []
    for part in _leaves(batch):
        if isinstance(part, torch.Tensor):
            found.append(part)
        elif hasattr(part, "to"):
            return None
    return found


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, list | tuple):
        for part in batch:
            yield from _leaves(part)
    elif isinstance(batch, Mapping):
        for part in batch.values():
            yield from _leaves(part)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type) and not hasattr(batch, "to"):
        for field in dataclasses.fields(batch):
            yield from _leaves(getattr(batch, field.name))
    else:
        yield batch
