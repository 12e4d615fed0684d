"""Reading numbers from the device without waiting for it.

Numbers are gathered, copied to the host together, and looked at when the copy has arrived: some steps later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

GATHERED = 64  # numbers that make up one copy: two small kernels per 64 steps


class Arrival(Protocol):
    """Of a copy: whether it is here, and the wait for it. A `torch.cuda.Event` is one."""

    def query(self) -> bool: ...

    def synchronize(self) -> None: ...


class _Here:
    """The arrival of what was never away."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class _WhenRead(_Here):
    """The arrival of what is copied, and waited for, at the moment of reading."""

    def query(self) -> bool:
        return False


class Later:
    """Numbers on their way from the device, each with a note of what it is.

    `send` starts the copy of a tensor to the host. The copies that are under way are few: each is forgotten when it has
    been read.
    """

    def __init__(self, send: Callable[[torch.Tensor], tuple[torch.Tensor, Arrival]] | None = None) -> None:
        self._send = send or send_to_host
        self._gathered: list[tuple[torch.Tensor, Any]] = []
        self._under_way: deque[tuple[torch.Tensor, Arrival, list[Any]]] = deque()

    def add(self, number: torch.Tensor, note: Any) -> None:
        """Take in a tensor of one element. All have one dtype and lie on one device."""
        self._gathered.append((number, note))
        if len(self._gathered) >= GATHERED:
            self._start()

    def _start(self) -> None:
        copy, arrival = self._send(torch.stack([number.reshape(()) for number, _ in self._gathered]))
        self._under_way.append((copy, arrival, [note for _, note in self._gathered]))
        self._gathered.clear()

    def arrived(self) -> Iterator[tuple[float, Any]]:
        """The numbers that are here, in order, with their notes. Each is given once. Never waits."""
        while self._under_way and self._under_way[0][1].query():
            copy, _, notes = self._under_way.popleft()
            yield from zip(copy.tolist(), notes)

    def all(self) -> Iterator[tuple[float, Any]]:
        """All numbers that were not given yet. Waits for the device."""
        if self._gathered:
            self._start()
        while self._under_way:
            copy, arrival, notes = self._under_way.popleft()
            arrival.synchronize()
            yield from zip(copy.tolist(), notes)


def send_to_host(stacked: torch.Tensor) -> tuple[torch.Tensor, Arrival]:
    """Start a copy to the host. From CUDA into pinned memory, which is what makes it asynchronous."""
    if stacked.device.type != "cuda":
        return stacked, _Here() if stacked.device.type == "cpu" else _WhenRead()
    copy = torch.empty(stacked.shape, dtype=stacked.dtype, pin_memory=True)
    copy.copy_(stacked, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(stacked.device))
    return copy, event
