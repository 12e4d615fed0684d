"""Writes the tape of a dry run: which operations the script issues, what it copies, where it waits.

No time of a GPU is known here (see `flatout.timeline`). Measured is only what the host will do on the real machine too:
making batches, and the script's own work between two operations where that takes long. Time is processor time of the
thread, so that a busy machine changes little; garbage collection, which flatout's own objects prolong, is taken out.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from flatout.recording.operation import Operation
from flatout.recording.schema import Phase, Place
from flatout.recording.tape import (
    WHOLE_GPU,
    Enter,
    Event,
    Fetch,
    Follow,
    Inside,
    Launch,
    Loader,
    Replay,
    Tape,
    Transfer,
    Wait,
    Work,
)
from flatout.steps.places import user_place
from flatout.virtual import observing
from flatout.virtual.face.pinning import is_pinned
from flatout.virtual.marks import Marks
from flatout.virtual.measured import typical_loader, typical_work
from flatout.virtual.regions import Regions, tensors_in
from flatout.virtual.tensor import HOST_INDEX, native_index

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine
    from flatout.virtual.operators import Operator

WORK_SECONDS = 2e-3
"""Work of the host between two operations that is shorter counts as part of issuing them: functions of PyTorch that the
virtual GPU stands in for take longer here than there, some of them up to a millisecond."""

_COPIES = frozenset({"aten::copy_", "aten::_copy_from"})
_READS = frozenset({"aten::_local_scalar_dense"})
_now_ns = time.thread_time_ns


class Clock:
    """Follows one process. `machine.clock` is this object while it does. `issue_ratio` is for the tape."""

    def __init__(self, machine: Machine, issue_ratio: float = 1.0) -> None:
        self._machine = machine
        self._issue_ratio = issue_ratio
        self._events: list[Event] = [Enter("forward")]
        self._steps: list[tuple[Event, ...]] = []
        self._first_step = 0
        self._operations: dict[Operation, int] = {}
        self._lines: list[int | None] = []
        self._launches: dict[tuple[int, int], Launch] = {}
        self._places: dict[Place, int] = {}
        self._loaders: dict[Hashable, list[Loader]] = {}
        self._waiting: tuple[str, int | None] | None = None
        self._left = threading.local()
        self._collection_began = 0
        self._marks = Marks()
        self._captured: dict[int, list[int]] = {}
        self.regions = Regions()
        gc.callbacks.append(self._collecting)
        observing.listen(self._operation, _now_ns)

    def stop(self) -> None:
        """Follow no longer."""
        observing.listen(None)
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)

    def skip(self) -> None:
        """What this thread did since its last operation was flatout's own."""
        self._left.ns = _now_ns()

    def pause(self, place: Place | None) -> None:
        """What this thread did since its last operation was the script's; what it does until `skip` is not."""
        if self._machine.phase != "setup":
            self._worked(_now_ns(), lambda: place)

    def phase_changed(self, phase: Phase) -> None:
        if self.regions.calls:
            self.regions.backward_ended()
        self._events.append(Enter(phase))

    def step_completed(self) -> None:
        """The events so far were one whole step."""
        events, self._events = tuple(self._events), [Enter(self._machine.phase)]
        if self._machine.step <= 2:
            self._steps = []  # the first step makes what later ones find: optimizer state, workspaces
            self._first_step = self._machine.step - 1
        self._steps.append(events)
        self._marks.step_completed()

    def wait(self, reason: str, place: Place | None, stream: int | None = None, event: int | None = None) -> None:
        """The host waits for the GPU; the operation that makes it wait may still be told of."""
        if self._machine.phase == "setup":
            return
        self._flush()
        self.regions.broken()
        where = self._place(place)
        if reason == "synchronize":
            self._events.append(Wait(WHOLE_GPU if stream is None else stream, reason, where, event))
        else:
            self._waiting = (reason, where)

    def record(self, stream: int) -> int:
        """A CUDA event is recorded on a stream. Returns its number."""
        made = self._marks.record(stream)
        self._events.append(made)
        return made.event

    def follow(self, event: int, stream: int) -> None:
        """Later work on the stream waits for the event."""
        self._events.append(Follow(event, stream))

    def fetched(self, key: Hashable, loader: Loader, place: Place | None) -> None:
        """The script took a batch of a loader, which `key` tells from others; `loader` is what that batch took."""
        self._loaders.setdefault(key, []).append(loader)
        if self._machine.phase != "setup":
            self._events.append(Fetch(list(self._loaders).index(key), self._place(place)))
        self.skip()

    def tape(self) -> Tape | None:
        """The steps seen, or None where none was completed."""
        if not self._steps:
            return None
        return Tape(
            events=self._marks.repeatable(typical_work(self._steps)),
            steps=len(self._steps),
            operations=tuple(self._operations),
            lines=tuple(self._lines),
            places=tuple(self._places),
            loaders=tuple(typical_loader(seen) for seen in self._loaders.values()),
            first_step=self._first_step,
            calls=tuple(self.regions.calls),
            kept=tuple(sorted(self.regions.kept)),
            issue_ratio=self._issue_ratio,
        )

    def capture_begins(self) -> None:
        """What this thread issues from now on is written into a CUDA graph, not done."""
        self._captured[threading.get_ident()] = []

    def capture_ends(self) -> tuple[int, ...]:
        """The operations that the graph got."""
        return tuple(self._captured.pop(threading.get_ident(), ()))

    def replayed(self, operations: tuple[int, ...]) -> None:
        """A graph of these operations was launched."""
        if self._machine.phase != "setup":
            self._events.append(Replay(operations, self._machine.thread.stream))
            self.skip()

    def _operation(self, op: Operator, args: Sequence[Any], kwargs: dict[str, Any], result: Any, began_ns: int) -> None:
        if self._captured and (captured := self._captured.get(threading.get_ident())) is not None:
            captured.append(self._number(observing.describe(op, args, kwargs, result)))
            return
        if self._machine.phase == "setup":
            return
        call = self.regions.call(self._machine.phase) if self.regions.calls else None
        if call is None:
            self._worked(began_ns, user_place)
        name = op.name
        if name in _COPIES and _between_host_and_gpu(args):
            self._transfer(args, kwargs)
        elif name in _READS:
            size_bytes = args[0].element_size() if isinstance(args[0], torch.Tensor) else 0
            self._copy("to_host", size_bytes, pinned=False, non_blocking=False)
            self.regions.used_outside(args)
        elif call is not None:
            self._inside(call, op, args, kwargs, result)
            self._flush()
        else:
            if self.regions.calls:
                self.regions.used_outside(observing.flow(op, args, kwargs, result)[0])
            self._launch(observing.describe(op, args, kwargs, result))
            self._flush()
        self._left.ns = _now_ns()

    def _worked(self, until_ns: int, place: Callable[[], Place | None]) -> None:
        left = getattr(self._left, "ns", until_ns)
        if until_ns - left > WORK_SECONDS * 1e9:
            self._events.append(Work((until_ns - left) * 1e-9, self._place(place())))

    def _inside(self, call: int, op: Operator, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        number = self._number(observing.describe(op, args, kwargs, result))
        inputs, outputs = observing.flow(op, args, kwargs, result)
        regions = self.regions
        backward = regions.calls[call].backward_of is not None
        read, made = regions.pieces(inputs), regions.made(outputs, backward=backward)
        if op.writes:
            targets = [args[at] if isinstance(at, int) else kwargs.get(at) for at in op.writes]
            regions.written(tensors_in(targets), backward=backward)
        self._events.append(Inside(number, self._machine.thread.stream, call, read, made))

    def _number(self, operation: Operation) -> int:
        number = self._operations.get(operation)
        if number is None:
            number = self._operations[operation] = len(self._operations)
            self._lines.append(self._place(user_place()))
        return number

    def _launch(self, operation: Operation) -> None:
        key = (self._number(operation), self._machine.thread.stream)
        event = self._launches.get(key)
        if event is None:
            event = self._launches[key] = Launch(*key)
        self._events.append(event)

    def _transfer(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        target, source = args[:2]
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        to_gpu = 0 < native_index(target) <= HOST_INDEX
        host = source if to_gpu else target
        size_bytes = target.numel() * source.element_size()
        self._copy("to_gpu" if to_gpu else "to_host", size_bytes, pinned=is_pinned(host), non_blocking=non_blocking)

    def _copy(self, direction: Any, size_bytes: int, *, pinned: bool, non_blocking: bool) -> None:
        reason_and_place, self._waiting = self._waiting, None
        place = reason_and_place[1] if reason_and_place else self._place(user_place())
        stream = self._machine.thread.stream
        self._events.append(Transfer(direction, size_bytes, pinned, not non_blocking, stream, place))

    def _flush(self) -> None:
        if self._waiting is not None:
            (reason, place), self._waiting = self._waiting, None
            self._events.append(Wait(self._machine.thread.stream, reason, place))

    def _place(self, place: Place | None) -> int | None:
        return None if place is None else self._places.setdefault(place, len(self._places))

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = _now_ns()
        elif hasattr(self._left, "ns"):
            self._left.ns += _now_ns() - self._collection_began


def _between_host_and_gpu(args: Sequence[Any]) -> bool:
    if len(args) < 2 or not isinstance(args[0], torch.Tensor) or not isinstance(args[1], torch.Tensor):
        return False
    to, of = (0 < native_index(one) <= HOST_INDEX for one in args[:2])
    return to != of
