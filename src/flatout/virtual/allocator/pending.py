"""Frees that wait: a block that other streams used (`record_stream`) is reusable only when they are done with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from flatout.virtual.allocator.blocks import Block

RecordEvent: TypeAlias = Callable[[int], object]
"""Marks the present end of a stream's work; the result is handed to `EventDone`."""
EventDone: TypeAlias = Callable[[object], bool]
"""Whether the stream has come past that mark."""


class PendingFrees:
    """Blocks whose free waits for events on other streams. `complete` is called with each block that waits no more."""

    def __init__(self, record_event: RecordEvent, event_done: EventDone, complete: Callable[[Block], None]) -> None:
        self._record_event = record_event
        self._event_done = event_done
        self._complete = complete
        self._events: dict[int, deque[tuple[object, Block]]] = {}
        # While a CUDA graph is captured, events must not be asked for: such blocks wait here until it has ended.
        self._until_captured: list[Block] = []
        self._capture_uses: dict[int, set[int]] = {}

    @property
    def any(self) -> bool:
        return bool(self._events or self._until_captured)

    def add(self, block: Block, capturing: bool) -> None:
        """A block was freed while `stream_uses` is not empty."""
        if capturing:
            self._until_captured.append(block)
        else:
            self._record(block)

    def note_capture_use(self, block: Block, stream: int) -> None:
        """A use inside a capture: it ends with the capture and needs no event later."""
        self._capture_uses.setdefault(id(block), set()).add(stream)

    def process(self) -> None:
        """Completes the frees whose events are done; a stream's later events wait for its earlier ones."""
        self._record_deferred()
        for stream in list(self._events):
            events = self._events[stream]
            while events and self._event_done(events[0][0]):
                self._count_down(events.popleft()[1])
            if not events:
                del self._events[stream]

    def synchronize(self) -> None:
        """Waits for all events and completes all frees."""
        self._record_deferred()
        waiting, self._events = self._events, {}
        for events in waiting.values():
            for _, block in events:
                self._count_down(block)

    def _record(self, block: Block) -> None:
        streams, block.stream_uses = block.stream_uses or set(), None
        for stream in sorted(streams):
            block.event_count += 1
            self._events.setdefault(stream, deque()).append((self._record_event(stream), block))

    def _record_deferred(self) -> None:
        deferred, self._until_captured = self._until_captured, []
        for block in deferred:
            if block.stream_uses is not None:
                block.stream_uses -= self._capture_uses.pop(id(block), set())
            self._record(block)
            if block.event_count == 0:
                self._complete(block)

    def _count_down(self, block: Block) -> None:
        block.event_count -= 1
        if block.event_count == 0:
            self._complete(block)
