"""How long the steps on a tape take on a GPU: the host's clock and the GPU's, and what each instant goes to."""

from flatout.timeline.host import Host
from flatout.timeline.player import Prices
from flatout.timeline.span import BOUNDS, Bound, Span
from flatout.timeline.timeline import Timeline, play, step_seconds

__all__ = ["BOUNDS", "Bound", "Host", "Prices", "Span", "Timeline", "play", "step_seconds"]
