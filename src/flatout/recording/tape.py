"""The tape of a run: what the host asked for, in order. `flatout.timeline` plays it, as it was or without some cause.

A dry run writes a tape for whatever GPU, with no times of a GPU: only what the host really took is in it as seconds,
making a batch, and the script's own work between operations. The tape of a real run, or of a trace of one, has beside
that what each event took there: `host_seconds` and `gpu_seconds`, which then count in place of what it would cost.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from flatout.recording.operation import Operation
from flatout.recording.schema import Phase, Place

Direction: TypeAlias = Literal["to_gpu", "to_host"]
WHOLE_GPU = -1
"""In place of a stream: every stream of the GPU."""


class Launch(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """An operation was issued to a stream. `operation` is its place in `Tape.operations`.

    Measured, where they are not None: `host_seconds` to issue it, `gpu_seconds` of its kernel, of which there is one.
    """

    operation: int
    stream: int = 0
    host_seconds: float | None = None
    gpu_seconds: float | None = None


class Transfer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A copy between host and GPU. `blocking`: the host waits for it; `place` is a position in `Tape.places`."""

    direction: Direction
    size_bytes: int
    pinned: bool
    blocking: bool
    stream: int = 0
    place: int | None = None
    host_seconds: float | None = None
    gpu_seconds: float | None = None


class Wait(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The host waits for a stream, for all of them (`WHOLE_GPU`), or for an event where one is named."""

    stream: int
    reason: str
    place: int | None = None
    event: int | None = None


class Record(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """An event is recorded on a stream."""

    event: int
    stream: int


class Follow(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Later work on a stream waits for an event; the host does not."""

    event: int
    stream: int


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The host takes the next batch of a loader (a place in `Tape.loaders`)."""

    loader: int
    place: int | None = None


class Work(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The host did work of its own for that long, beyond what issuing operations takes. Measured, in seconds."""

    seconds: float
    place: int | None = None


class Enter(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The program enters a phase."""

    phase: Phase


Piece: TypeAlias = tuple[int, int]
"""Where a tensor begins: the number of its storage (-1 where it has none that is known), and bytes from its start."""


class Inside(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """An operation of a compiled region, as it was issued without a compiler.

    `call` is a position in `Tape.calls`. `inputs` and `outputs` tell the tensors of the operation's own `inputs()` and
    `outputs` apart, in the same order.
    """

    operation: int
    stream: int
    call: int
    inputs: tuple[Piece, ...] = ()
    outputs: tuple[Piece, ...] = ()


class Replay(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A CUDA graph is launched: all of these operations, one after another, with one call of the host."""

    operations: tuple[int, ...]
    stream: int = 0


class Compiled(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """A compiler's code issues these operations; `begins`: a call begins here, which checks guards first."""

    operations: tuple[int, ...]
    stream: int = 0
    begins: bool = False


class Absorbed(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """An operation of a compiled region that the kernel of another event does."""


Event: TypeAlias = (
    Launch | Transfer | Wait | Record | Follow | Fetch | Work | Enter | Inside | Replay | Compiled | Absorbed
)


def operations_of(event: Event) -> tuple[int, ...]:
    """The operations that an event brings to the GPU, as positions in `Tape.operations`."""
    if isinstance(event, (Launch, Inside)):
        return (event.operation,)
    return event.operations if isinstance(event, (Replay, Compiled)) else ()


class Call(msgspec.Struct, frozen=True):
    """One run through a compiled region, or through the part of it between two graph breaks.

    Attributes:
        region: number of what was compiled.
        backward_of: the call whose backward pass this is; None for a forward pass.
        graph: whether the compiler replays it as a CUDA graph.
        differentiable: whether autograd followed it.
        input_bytes: size of the tensors that it was called with.
        fuses: whether the compiler fuses kernels (a mere CUDA graph does not).
    """

    region: int
    backward_of: int | None = None
    graph: bool = False
    differentiable: bool = False
    input_bytes: int = 0
    fuses: bool = True


class Loader(msgspec.Struct, frozen=True):
    """A data loader: what making one batch takes one process, in seconds, and how batches are made ahead.

    `workers` is 0 where the training process makes them itself; `samples` is the size of a batch, None where unknown.
    `pinned`: batches come in page-locked memory, where a thread of the training process puts what workers make.
    `busy_ratio`: the share of `batch_seconds` in which it keeps a processor busy; the rest waits for files or others.
    """

    batch_seconds: float
    workers: int = 0
    prefetch_factor: int = 2
    samples: int | None = None
    pinned: bool = False
    busy_ratio: float = 1.0


class Tape(msgspec.Struct, frozen=True):
    """One or more whole steps of a run, to be repeated for as long as one likes.

    Attributes:
        events: what the host did, in order.
        steps: how many training steps `events` holds.
        operations: the distinct operations.
        lines: for each of them, the position in `places` of the line that first issued it.
        places: lines of source.
        loaders: the data loaders.
        first_step: number of the first step on the tape, from 0.
        calls: runs through compiled regions.
        kept: storages made in compiled regions that something outside of them uses.
        issue_ratio: how many times as long as the host of `flatout.timeline.Host` the machine that wrote the tape takes
            to issue operations. Its other times (batches, the script's own work) are this machine's as they stand.
    """

    events: tuple[Event, ...]
    steps: int = 1
    operations: tuple[Operation, ...] = ()
    lines: tuple[int | None, ...] = ()
    places: tuple[Place, ...] = ()
    loaders: tuple[Loader, ...] = ()
    first_step: int = 0
    calls: tuple[Call, ...] = ()
    kept: tuple[int, ...] = ()
    issue_ratio: float = 1.0


def with_workers(tape: Tape, workers: int, number: int | None = None) -> Tape:
    """The tape with so many workers in its loader of that number, or in all of them."""
    loaders = tuple(
        msgspec.structs.replace(loader, workers=workers) if number in (None, position) else loader
        for position, loader in enumerate(tape.loaders)
    )
    return msgspec.structs.replace(tape, loaders=loaders)
