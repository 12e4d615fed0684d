"""How long the steps on a tape take on a GPU: the host's clock and the GPU's, and what each instant goes to."""

from flatout.timeline.host import Host
from flatout.timeline.span import BOUNDS, Bound, Span
from flatout.timeline.timeline import Timeline, play

__all__ = ["BOUNDS", "Bound", "Host", "Span", "Timeline", "play"]
