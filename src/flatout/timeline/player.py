"""Plays a tape on a GPU: two clocks, one of the host that issues work, one a stream of the GPU that does it.

The host runs ahead until a wait joins the two, or until the driver's queue is full. A kernel begins when it has been
issued, its stream is free, and no kernel of another stream is at work: two that each fill the GPU are not faster
together. Copies have an engine for either direction. Those from page-locked memory that nobody waits for take place
while the host goes on; all others hold the host up until they are done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from flatout.costs import Efficiency, cost, kernel_limits
from flatout.gpu import GPU
from flatout.recording.operation import Operation
from flatout.recording.schema import Phase
from flatout.recording.tape import (
    WHOLE_GPU,
    Absorbed,
    Compiled,
    Enter,
    Event,
    Fetch,
    Follow,
    Launch,
    Record,
    Replay,
    Tape,
    Transfer,
    Wait,
    Work,
    operations_of,
)
from flatout.timeline.bus import bus_bytes_per_second
from flatout.timeline.host import Host
from flatout.timeline.loading import Batches
from flatout.timeline.span import Bound, Span

GRAPH_GAP_RATIO = 0.4
"""From one kernel of a CUDA graph to the next, relative to kernels that are launched one by one. Source: NVIDIA
technical blog, "Getting started with CUDA graphs" (2019): 0.5 in place of 0.9 microseconds between kernels without a
graph, on a V100; the scheduling of a launch itself is saved too, so a little less."""


class Price:
    """What one operation takes on this GPU: seconds by what they go to, and its kernels."""

    __slots__ = ("compute", "kernels", "launch", "memory", "seconds")

    def __init__(self, operation: Operation, gpu: GPU, efficiency: Efficiency | None, slower: float = 1.0) -> None:
        self.compute = self.memory = self.launch = 0.0
        known = cost(operation)
        self.kernels = known.launches
        for kernel in known.kernels:
            limits = kernel_limits(kernel, gpu, efficiency)
            self.launch += limits.launch_seconds
            if limits.compute_seconds > limits.memory_seconds:
                self.compute += limits.compute_seconds * slower
            else:
                self.memory += limits.memory_seconds * slower
        self.seconds = self.compute + self.memory + self.launch

    @classmethod
    def of_graph(cls, prices: Sequence[Price]) -> Price:
        """What these operations take together as a CUDA graph."""
        self = cls.__new__(cls)
        self.compute = sum(price.compute for price in prices)
        self.memory = sum(price.memory for price in prices)
        self.launch = sum(price.launch for price in prices) * GRAPH_GAP_RATIO
        self.kernels = 1
        self.seconds = self.compute + self.memory + self.launch
        return self

    @classmethod
    def measured(cls, price: Price, seconds: float) -> Price:
        """One kernel that took so long; what for is shared out as in `price`."""
        self = cls.__new__(cls)
        work = price.compute + price.memory
        self.compute = seconds * price.compute / work if work else 0.0
        self.memory = seconds - self.compute
        self.launch = 0.0
        self.kernels = 1
        self.seconds = seconds
        return self


class Prices:
    """What operations take on one GPU, each worked out once however many tapes have it."""

    def __init__(self, gpu: GPU, efficiency: Efficiency | None = None, slower: float = 1.0) -> None:
        self.gpu = gpu
        self._efficiency = efficiency
        self.slower = slower
        # By identity: an operation over lists of parameters is long, and the same object on tape after tape.
        self._known: dict[int, tuple[Operation, Price]] = {}

    def of(self, operation: Operation) -> Price:
        """The price of an operation."""
        known = self._known.get(id(operation))
        if known is None:
            known = operation, Price(operation, self.gpu, self._efficiency, self.slower)
            self._known[id(operation)] = known
        return known[1]


class Player:
    """The state of both lanes while a tape is played, again and again.

    Attributes:
        now: the host's clock, in seconds.
        host_spans, gpu_spans: what either did when the tape was played last.
        prices: what each operation of the tape takes.
    """

    def __init__(self, tape: Tape, host: Host, prices: Prices) -> None:
        self.tape = tape
        self.host = host = msgspec.structs.replace(host, issue_ratio=tape.issue_ratio)
        self.now = 0.0
        self.prices = [prices.of(operation) for operation in tape.operations]
        self.host_spans: list[Span] = []
        self.gpu_spans: list[Span] = []
        self._bus = bus_bytes_per_second(prices.gpu)
        self._free: dict[int, float] = {0: 0.0}
        self._engines = {"kernels": 0.0, "to_gpu": 0.0, "to_host": 0.0}
        self._queue: deque[float] = deque()
        self._events: dict[int, float] = {}
        self._batches = [Batches(loader, host) for loader in tape.loaders]
        self._graphs: dict[tuple[int, ...], Price] = {}
        self._measured: dict[tuple[int, float], Price] = {}
        self._slower = prices.slower
        self._phase: Phase = "forward"
        self._played: dict[type, Callable[[int, Any], None]] = {
            Launch: self._launch,
            Transfer: self._transfer,
            Wait: self._wait,
            Record: self._record,
            Follow: self._follow,
            Fetch: self._fetch,
            Work: self._work,
            Enter: self._enter,
            Compiled: self._compiled,
            Replay: self._replay,
            Absorbed: self._absorbed,
        }

    @property
    def done(self) -> float:
        """When the GPU will have done everything that was issued, or the host's clock where that is later."""
        return max(self.now, *self._free.values())

    def play(self, passes: int = 1) -> float:
        """Play the tape so many times. Returns when the GPU has done all of it, in seconds since the first pass began.

        `host_spans` and `gpu_spans` are those of these passes.
        """
        self.host_spans, self.gpu_spans = [], []
        for _ in range(passes):
            self._pass()
        return self.done

    def _pass(self) -> None:
        played = self._played
        for position, event in enumerate(self.tape.events):
            played[type(event)](position, event)

    def _busy(self, position: int, seconds: float, doing: Bound | Literal["wait"]) -> None:
        if seconds > 0:
            self.host_spans.append(Span(self.now, self.now + seconds, doing, position))
            self.now += seconds

    def _launch(self, position: int, event: Launch) -> None:
        (price,) = self.of(event)
        self._issue(position, event.host_seconds, price.kernels)
        self._run(position, event.stream, price)

    def _issue(self, position: int, measured: float | None, kernels: int) -> None:
        seconds = self.host.issue_seconds(self._phase, kernels) if measured is None else measured * self.host.scale
        self._busy(position, seconds, "launch")

    def _compiled(self, position: int, event: Compiled) -> None:
        host = self.host
        if event.begins:
            self._busy(position, host.call_seconds * host.issuing, "launch")
        for operation in event.operations:
            price = self.prices[operation]
            seconds = host.compiled_seconds + (price.kernels - 1) * host.kernel_seconds
            self._busy(position, seconds * host.issuing, "launch")
            self._run(position, event.stream, price)

    def _replay(self, position: int, event: Replay) -> None:
        price = self.graph(event)
        self._busy(position, self.host.graph_seconds * self.host.issuing, "launch")
        self._run(position, event.stream, price)

    def _absorbed(self, position: int, event: Absorbed) -> None:
        pass

    def of(self, event: Event) -> tuple[Price, ...]:
        """The prices of what an event brings to the GPU."""
        if isinstance(event, Replay):
            return (self.graph(event),)
        if isinstance(event, Launch) and event.gpu_seconds is not None:
            return (self._as_measured(event.operation, event.gpu_seconds),)
        return tuple(self.prices[operation] for operation in operations_of(event))

    def graph(self, event: Replay) -> Price:
        """What a graph takes."""
        price = self._graphs.get(event.operations)
        if price is None:
            price = self._graphs[event.operations] = Price.of_graph([self.prices[one] for one in event.operations])
        return price

    def _as_measured(self, operation: int, seconds: float) -> Price:
        price = self._measured.get((operation, seconds))
        if price is None:
            price = Price.measured(self.prices[operation], seconds * self._slower)
            self._measured[operation, seconds] = price
        return price

    def _run(self, position: int, stream: int, price: Price) -> None:
        if not price.kernels:
            return
        queue = self._queue
        while queue and queue[0] <= self.now:
            queue.popleft()
        if len(queue) >= self.host.queue_launches:
            self._busy(position, queue[len(queue) - self.host.queue_launches] - self.now, "wait")
        start = self._start("kernels", stream)
        end = start + price.seconds
        self._free[stream] = self._engines["kernels"] = end
        queue.extend([start] * price.kernels)
        bound: Bound = "compute" if price.compute > price.memory else "memory"
        self.gpu_spans.append(Span(start, end, bound, position, stream))

    def _start(self, engine: str, stream: int) -> float:
        """The earliest moment at which the GPU can begin what the host issues now."""
        return max(self.now, self._free.get(stream, 0.0), self._engines[engine])

    def _transfer(self, position: int, event: Transfer) -> None:
        """Source of what waits for what: CUDA runtime API, "API synchronization behavior"."""
        self._issue(position, event.host_seconds, 1)
        start = self._start(event.direction, event.stream)
        rate = self._bus * self.host.pinned_ratio
        if not event.pinned:
            rate = min(rate, self.host.pageable_bytes_per_second / self.host.scale)
        end = start + (event.size_bytes / rate if event.gpu_seconds is None else event.gpu_seconds)
        self._free[event.stream] = self._engines[event.direction] = end
        self.gpu_spans.append(Span(start, end, "transfer", position, event.stream))
        if event.blocking or not event.pinned:
            self._busy(position, start - self.now, "wait")
            self._busy(position, end - self.now + self.host.wait_seconds * self.host.issuing, "transfer")

    def _wait(self, position: int, event: Wait) -> None:
        if event.event is not None:
            until = self._events.get(event.event, 0.0)
        elif event.stream == WHOLE_GPU:
            until = max(self._free.values())
        else:
            until = self._free.get(event.stream, 0.0)
        self._busy(position, until - self.now, "wait")
        self._busy(position, self.host.wait_seconds * self.host.issuing, "launch")

    def _record(self, position: int, event: Record) -> None:
        self._events[event.event] = self._free.get(event.stream, 0.0)

    def _follow(self, position: int, event: Follow) -> None:
        free = self._free
        free[event.stream] = max(free.get(event.stream, 0.0), self._events.get(event.event, 0.0))

    def _fetch(self, position: int, event: Fetch) -> None:
        self._busy(position, self._batches[event.loader].take(self.now) - self.now, "data")

    def _work(self, position: int, event: Work) -> None:
        self._busy(position, event.seconds * self.host.scale, "host")

    def _enter(self, position: int, event: Enter) -> None:
        self._phase = event.phase
