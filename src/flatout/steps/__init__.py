"""Finding steps and phases in a running program, without being told.

Nothing here knows whether the GPU is real: `watch_steps` calls back, the caller records.
"""

__all__ = ["StepListener", "watch_steps"]

from flatout.steps.finding import StepListener, watch_steps
