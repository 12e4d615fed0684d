"""What each instant of a stretch of time went to, on the lane that was later.

While the GPU works, the instant is that kernel's: its arithmetic or its traffic, whichever takes it longer, or its
start. While several streams work, it is the first one's that began. While the GPU is idle it waits for the host, and
the instant goes to what the host did then: issuing operations, other work, fetching a batch, a copy. So the parts add
up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flatout.timeline.span import BOUNDS, Bound, Span


def bound_by(
    start: float,
    end: float,
    gpu: Iterable[tuple[Span, dict[Bound, float]]],
    host: Sequence[Span],
) -> dict[Bound, float]:
    """Seconds between `start` and `end` by what they went to.

    `gpu` has each span with its parts (seconds by bound, which add up to the span); `host` is in order of time.
    """
    total: dict[Bound, float] = dict.fromkeys(BOUNDS, 0.0)
    cursor = start
    idle: list[tuple[float, float]] = []
    for span, parts in sorted(gpu, key=lambda item: item[0].start):
        if span.start > cursor:
            idle.append((cursor, min(span.start, end)))
            cursor = span.start
        if cursor >= end:
            break
        shown = min(span.end, end) - cursor
        if shown > 0:
            whole = sum(parts.values())
            for bound, seconds in parts.items():
                total[bound] += seconds * shown / whole if whole else 0.0
            cursor += shown
    if cursor < end:
        idle.append((cursor, end))
    _attribute(idle, host, total)
    return total


def _attribute(idle: Sequence[tuple[float, float]], host: Sequence[Span], total: dict[Bound, float]) -> None:
    """Give each stretch of the GPU's idleness to what the host did meanwhile; what nothing explains to launches."""
    position = 0
    for begin, end in idle:
        while position < len(host) and host[position].end <= begin:
            position += 1
        explained = 0.0
        here = position
        while here < len(host) and host[here].start < end:
            span = host[here]
            shared = min(span.end, end) - max(span.start, begin)
            if shared > 0 and span.bound != "wait":
                total[span.bound] += shared
                explained += shared
            here += 1
        total["launch"] += max(0.0, end - begin - explained)
