"""Optimizers and schedulers that `loop.prepare` has to refuse: their `step` needs what the loop cannot give."""

from __future__ import annotations

import inspect
from typing import Any

from torch.optim import Optimizer

from flatout.errors import UsageError


def needed_by_step(thing: Any) -> str | None:
    """The argument that its `step` cannot do without; None for those that need none."""
    for name, parameter in list(inspect.signature(type(thing).step).parameters.items())[1:]:
        required = parameter.default is inspect.Parameter.empty
        if required and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            return name
    return None


def check_optimizer(optimizer: Optimizer) -> None:
    """Raises `UsageError` for one such as LBFGS, whose step needs a closure."""
    if needed := needed_by_step(optimizer):
        raise UsageError(
            f"loop.prepare({type(optimizer).__name__}): its step() needs a {needed}, which computes the loss several "
            "times a step; windows and loss scaling cannot hold for it. Leave it out of prepare, and call its step "
            "yourself outside of loop.step()"
        )


def check_scheduler(scheduler: Any, schedule: str) -> None:
    """Raises `UsageError` for one such as ReduceLROnPlateau, whose step needs a metric, if the loop is to step it."""
    if schedule != "manual" and (needed := needed_by_step(scheduler)):
        raise UsageError(
            f"loop.prepare({type(scheduler).__name__}): its step() needs {needed}, which the loop does not know; give "
            f"Loop(schedule='manual') instead of {schedule!r}, and call scheduler.step({needed}) yourself"
        )
