"""CUDA streams and events. Memory is kept apart by stream as on a real GPU; time passes when the tape is played."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual.face.patches import Patches, remake
from flatout.virtual.tensor import HOST_INDEX, allocation_of, native_index

_CUDA_TYPE = 1
# Source: c10/cuda/CUDAStream.cpp, kStreamsPerPool: streams are handed out in turn from pools of this size.
_STREAMS_PER_POOL = 32
# Source: c10/cuda/CUDAStream.cpp: priorities that every supported GPU has.
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = 0, -5
_turns = {priority: itertools.count() for priority in range(_HIGHEST_PRIORITY, _LOWEST_PRIORITY + 1)}
_external: dict[int, int] = {}
_lock = threading.Lock()


def _next_stream(priority: int) -> int:
    priority = max(_HIGHEST_PRIORITY, min(_LOWEST_PRIORITY, int(priority)))
    with _lock:
        turn = next(_turns[priority]) % _STREAMS_PER_POOL
    return 1 + turn + _STREAMS_PER_POOL * -priority


def _external_stream(pointer: int) -> int:
    with _lock:
        return _external.setdefault(pointer, 1000 + len(_external))


class StreamBase(torch.Stream):
    """Base of ``torch.cuda.Stream``, in place of the class in C that needs a driver."""

    def __new__(
        cls,
        device: Any = None,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
        stream_ptr: int | None = None,
        **options: Any,
    ) -> Any:
        torch.cuda._lazy_init()
        if stream_ptr is not None:
            stream_id = _external_stream(int(stream_ptr))
        elif stream_id is None:
            stream_id = _next_stream(priority)
        number = machines.current().gpu().number if device_index is None else device_index
        return super().__new__(cls, stream_id=stream_id, device_index=number, device_type=_CUDA_TYPE)

    @property
    def cuda_stream(self) -> int:
        """The stream's handle: 0 for the default stream."""
        return 0 if self.stream_id == 0 else 0x5500000000 + 0x1000 * self.stream_id

    @property
    def native_handle(self) -> int:
        """The same."""
        return self.cuda_stream

    @property
    def priority(self) -> int:
        """The lower, the sooner served."""
        return 0 if not 0 < self.stream_id < 1000 else -((self.stream_id - 1) // _STREAMS_PER_POOL)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority."""
        return _LOWEST_PRIORITY, _HIGHEST_PRIORITY

    def query(self) -> bool:
        """Whether everything on the stream is done."""
        return True

    def synchronize(self) -> None:
        """Wait for everything on the stream."""
        machines.current().wait("synchronize", stream=self.stream_id)

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured on this stream."""
        return machines.current().thread.capturing

    def wait_event(self, event: Any) -> None:
        """Later work on this stream waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Later work on this stream waits for what is on the other."""
        clock = machines.current().clock
        if clock is not None:
            clock.follow(clock.record(stream.stream_id), self.stream_id)

    def record_event(self, event: Any = None) -> Any:
        """Mark this place in the stream."""
        event = torch.cuda.Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamBase) and (self.stream_id, self.device_index) == (
            other.stream_id,
            other.device_index,
        )

    def __hash__(self) -> int:
        return hash((self.stream_id, self.device_index))

    def __enter__(self) -> Any:
        self.__dict__.setdefault("_before", []).append(_get_current(-1)[0])
        machines.current().thread.stream = self.stream_id
        return self

    def __exit__(self, *exception: object) -> None:
        machines.current().thread.stream = self.__dict__["_before"].pop()


class EventBase:
    """Base of ``torch.cuda.Event``. What lies between two events is told from the operations between them."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
        **options: Any,
    ) -> Any:
        self = super().__new__(cls)
        self._timed = enable_timing
        self._operations = None
        self._mark = None
        return self

    _timed: bool
    _operations: int | None
    _mark: int | None

    @property
    def cuda_event(self) -> int:
        """The event's handle: 0 before it is first recorded."""
        return 0 if self._operations is None else 0x5600000000 + (id(self) & 0xFFFFFFFF)

    event_id = cuda_event

    @property
    def device(self) -> torch.device | None:
        """The GPU that recorded it."""
        return None if self._operations is None else machines.current().gpu().device

    def record(self, stream: Any = None) -> None:
        """Mark this place in the stream."""
        torch.cuda._lazy_init()
        machine = machines.current()
        self._operations = machine.operations
        if machine.clock is not None:
            self._mark = machine.clock.record(machine.thread.stream if stream is None else stream.stream_id)

    def wait(self, stream: Any = None) -> None:
        """Later work on the stream waits for this event."""
        machine = machines.current()
        if machine.clock is not None and self._mark is not None:
            machine.clock.follow(self._mark, machine.thread.stream if stream is None else stream.stream_id)

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def synchronize(self) -> None:
        """Wait until it has happened; one that was never recorded is not waited for."""
        if self._operations is not None:
            machines.current().wait("synchronize", event=self._mark)

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two recorded events: invented, and noted as an assumption."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._operations is None or end_event._operations is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        machine = machines.current()
        machine.assume_that("times measured with torch.cuda.Event are invented: 10 microseconds an operation")
        between: int = end_event._operations - self._operations
        return 0.01 * max(1, between)

    def ipc_handle(self) -> bytes:
        """A handle for another process."""
        return b"\0" * 64

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Any:
        """An event of another process."""
        return cls()


def _get_current(number: int) -> tuple[int, int, int]:
    machine = machines.current()
    number = machine.thread.device_number if number < 0 else number
    return machine.thread.stream, number, _CUDA_TYPE


def _get_default(number: int) -> tuple[int, int, int]:
    return 0, number, _CUDA_TYPE


def _set_current(stream_id: int, device_index: int, device_type: int) -> None:
    thread = machines.current().thread
    thread.stream, thread.device_number = stream_id, device_index


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_cuda_getCurrentStream": _get_current,
    "_cuda_getDefaultStream": _get_default,
    "_cuda_setStream": _set_current,
    "_cuda_getCurrentRawStream": lambda number: torch.cuda.current_stream(number).cuda_stream,
    "_cuda_getStreamFromExternal": lambda pointer, number: (_external_stream(pointer), number, _CUDA_TYPE),
}


def record_stream(self: torch.Tensor, stream: Any) -> None:
    """``Tensor.record_stream``: the memory is also used by another stream and is not reused before that is done."""
    index = native_index(self)
    if not 0 < index <= HOST_INDEX:
        raise NotImplementedError(
            "Could not run 'aten::record_stream' with arguments from the 'CPU' backend. This could be because the "
            "operator doesn't exist for this backend, or was omitted during the selective/custom build process (if "
            "using custom build)."
        )
    allocation = allocation_of(self)
    if allocation.block is not None:
        machines.current().gpus[index - 1].memory.allocator.record_stream(allocation.block, stream.stream_id)


def construct_stream(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Stream(device="cuda")`` is a CUDA stream."""
    if cls is not torch.Stream or "stream_id" in kwargs:
        return type.__call__(cls, *args, **kwargs)
    device = args[0] if args else kwargs.get("device")
    kind = "cuda" if device is None or isinstance(device, int) else torch.device(device).type
    if kind != "cuda":
        return type.__call__(cls, *args, **kwargs)
    return torch.cuda.Stream(device, priority=kwargs.get("priority", args[1] if len(args) > 1 else 0))


def construct_event(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Event(device="cuda")`` is a CUDA event."""
    device = args[0] if args else kwargs.pop("device", None)
    kind = "cuda" if device is None or isinstance(device, int) else torch.device(device).type
    if cls is torch.Event and kind == "cuda":
        return torch.cuda.Event(**kwargs)
    return type.__call__(cls, *args, **kwargs)


def is_event(instance: Any) -> bool:
    """What ``isinstance(event, torch.Event)`` says of ours."""
    return isinstance(instance, EventBase)


def install(patches: Patches) -> None:
    """Give ``torch.cuda`` these streams and events."""
    patches.set_all(torch._C, FUNCTIONS)
    patches.set_all(torch._C, {"_CudaStreamBase": StreamBase, "_CudaEventBase": EventBase})
    module = torch.cuda.streams
    stream = remake(patches, module, "Stream", StreamBase)
    remake(patches, module, "ExternalStream", stream)
    remake(patches, module, "Event", EventBase)
    patches.set(torch.Tensor, "record_stream", record_stream)
