"""What a Recording consists of: the one schema that every maker writes and every reader reads.

All sizes are bytes, all times are seconds, all sequence numbers count events of one run from 0.
`None` means "not known", never zero.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SCHEMA = "flatout.recording/1"

Maker: TypeAlias = Literal["virtual", "watch", "import"]
Phase: TypeAlias = Literal["setup", "forward", "backward", "optimizer", "other"]
Category: TypeAlias = Literal["parameters", "gradients", "optimizer", "activations", "inputs", "workspace", "other"]
CATEGORIES: tuple[Category, ...] = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "inputs",
    "workspace",
    "other",
)
Outcome: TypeAlias = Literal["completed", "stopped", "out_of_memory", "error", "timeout", "killed", "interrupted"]
MemoryAction: TypeAlias = Literal["alloc", "free", "segment_alloc", "segment_free"]


class Place(msgspec.Struct, frozen=True):
    """A line of somebody's source. `line` counts from 1; 0 where only the file is known."""

    file: str
    line: int
    function: str = ""


class Device(msgspec.Struct, frozen=True):
    """The GPU of a run.

    `capacity_bytes` is nominal, `usable_bytes` what CUDA reports as total, `context_bytes` lives outside PyTorch.
    """

    name: str
    capacity_bytes: int
    usable_bytes: int
    context_bytes: int


class Run(msgspec.Struct, frozen=True):
    """What was run, by which maker, on what."""

    maker: Maker
    script: str
    arguments: tuple[str, ...]
    torch_version: str
    started_unix_seconds: float
    device: Device | None = None


class Failure(msgspec.Struct, frozen=True):
    """An exception that ended the script. `type` is the qualified name without `builtins.`.

    `message` is the exception's own text, word for word; `notes` are what was added to it (``add_note``).
    """

    type: str
    message: str
    place: Place | None = None
    notes: tuple[str, ...] = ()


class Ending(msgspec.Struct, frozen=True):
    """How a run ended. Absent from a recording whose maker was killed.

    `completed`: the script ended by itself. `stopped`: flatout stopped it after the steps that were asked for.
    `doing` says what the run was doing when it was stopped from outside.
    """

    outcome: Outcome
    exit_code: int
    failure: Failure | None = None
    doing: str = ""


class Step(msgspec.Struct, frozen=True):
    """One optimizer step. `last_sequence` is the sequence number of the first memory event after it."""

    index: int
    operations: int
    last_sequence: int
    peak_allocated_bytes: int
    place: Place | None = None


class MemoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """One move of the caching allocator. `size_bytes` is the block's size after rounding and splitting."""

    sequence: int
    action: MemoryAction
    address: int
    size_bytes: int
    requested_bytes: int
    stream: int
    category: Category
    phase: Phase
    step: int
    place: Place | None


class Holder(msgspec.Struct, frozen=True):
    """Live memory of one category that one line of source holds."""

    place: Place | None
    category: Category
    size_bytes: int
    blocks: int


class Peak(msgspec.Struct, frozen=True):
    """The moment of highest allocated memory, taken apart.

    `reserved_bytes` is the run's own highest reserved memory; `upper_bound_bytes` is the highest reserved memory if
    every workspace whose size is not known took the most that it may take.
    """

    allocated_bytes: int
    reserved_bytes: int
    upper_bound_bytes: int
    step: int
    phase: Phase
    place: Place | None
    by_category: dict[str, int]
    holders: tuple[Holder, ...] = ()


class Wait(msgspec.Struct, frozen=True):
    """The host waited for the GPU. `invented`: the value read was made up; `steered`: a branch or a size hung on it."""

    place: Place | None
    reason: str
    count: int
    invented: bool
    steered: bool


class Assumption(msgspec.Struct, frozen=True):
    """Something that the maker had to assume. `text` is one sentence for the report."""

    text: str
    place: Place | None = None
    count: int = 1
