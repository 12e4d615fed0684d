"""How long the steps of a real run took, and what each went to. All times are seconds of the host's clock."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Part: TypeAlias = Literal[
    "data", "transfer", "forward", "backward", "optimizer", "evaluation", "checkpoint", "compile", "other"
]
"""What a stretch of a step was. `data`: the loop waited for a batch. `other`: the loop's own Python, and what has no
name of its own."""
PARTS: tuple[Part, ...] = (
    "data",
    "transfer",
    "forward",
    "backward",
    "optimizer",
    "evaluation",
    "checkpoint",
    "compile",
    "other",
)

Kind: TypeAlias = Literal["steady", "warm_up", "looked_into"]
"""`warm_up`: the first steps, which load, compile and allocate. `looked_into`: a profiler was at work, so the times are
longer than without. Only `steady` steps are timed for anybody to read."""


class TimedStep(msgspec.Struct, frozen=True):
    """One training step, from the end of the one before it to its own.

    Attributes:
        index: its number, from 0.
        start_seconds: when it began, since the recording did.
        seconds: how long it was. An evaluation or a checkpoint between two steps belongs to the later one.
        kind: whether its time may be taken at its word.
        parts: seconds by what they went to; they add up to `seconds`. What is not known is missing, not zero.
        gpu_parts: the same on the GPU's clock; None where there is no GPU, or it was not timed.
    """

    index: int
    start_seconds: float
    seconds: float
    kind: Kind
    parts: dict[Part, float]
    gpu_parts: dict[Part, float] | None = None
