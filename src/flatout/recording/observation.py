"""Something that a real run was seen to do: what, at which line, how often, and what leaving it would save."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from flatout.recording.schema import Place

Sight: TypeAlias = Literal[
    "graph_retained",  # every backward pass of a step kept its graph
    "graph_grows",  # a name holds a graph that grows from step to step
    "memory_grows",  # a name holds tensors that grow from step to step
    "evaluation_recorded",  # a model in eval() recorded a graph
    "optimizer_alone",  # an optimizer that goes from tensor to tensor
]


class Observation(msgspec.Struct, frozen=True):
    """Of the whole run, or of the steps that were looked into.

    Attributes:
        sight: what was seen.
        place: at which line of the script; None where no line is to blame.
        count: how often.
        steps: over how many steps that was.
        saved_seconds, low_seconds, high_seconds: what a step would be shorter by, where an alternative was tried on
            this machine; else None.
        evidence: what else was measured, for the report.
    """

    sight: Sight
    place: Place | None
    count: int
    steps: int
    saved_seconds: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    evidence: dict[str, Any] = {}
