"""What happened when, on which lane."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Bound: TypeAlias = Literal["compute", "memory", "launch", "host", "data", "transfer", "communication"]
"""What an instant of a step went to.

`launch`: the GPU waited for the host to issue operations, or was starting a kernel. `host`: it waited for other work of
the host. `data`: for a batch. `transfer`: bytes moved between host and GPU and nothing else went on.
"""
BOUNDS: tuple[Bound, ...] = ("compute", "memory", "launch", "host", "data", "transfer", "communication")


class Span(NamedTuple):
    """A stretch of one lane, in seconds since the tape began. `event` is a position in the tape's events.

    On the host's lane `bound` is what the host was doing; "wait" where it waited for the GPU.
    """

    start: float
    end: float
    bound: Bound | Literal["wait"]
    event: int
    stream: int = 0
