"""Alternatives that nothing in the run was like, tried on this machine with the script's own shapes after its end.

Each trial changes copies only, times the way things are and the alternative in turn, and tells the ratio of the two
with a 95 % interval over the rounds. It gives up, and says nothing, where it cannot make sure that both compute
the same.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

ROUNDS = 9
LONGEST_SECONDS = 3.0
MOST_BYTES = 2**28
"""Of parameters. Two copies with gradients and two moments each are eight times that, and a script must not run out of
memory because of what is tried after its end."""

_STUDENT_95 = {4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31}
"""Student's t for 95 % by degrees of freedom."""

_OPTIONS: dict[str, dict[str, Any]] = {"fused": {"fused": True, "foreach": None}, "foreach": {"foreach": True}}

_now = time.perf_counter


class Ratio(NamedTuple):
    """How long the alternative takes of what it takes as it is; `low` and `high` are of 95 %."""

    middle: float
    low: float
    high: float


def ratio(as_is: Callable[[], object], otherwise: Callable[[], object], rounds: int = ROUNDS) -> Ratio | None:
    """Time both in turn; None where that takes too long to be sure."""
    as_is(), otherwise()
    logarithms: list[float] = []
    began = _now()
    for _ in range(rounds):
        times = []
        for run in (as_is, otherwise):
            start = _now()
            run()
            times.append(_now() - start)
        logarithms.append(math.log(times[1] / times[0]))
        if _now() - began > LONGEST_SECONDS:
            break
    if len(logarithms) < 5:
        return None
    middle = statistics.fmean(logarithms)
    error = statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    reach = _STUDENT_95[len(logarithms) - 1] * error
    return Ratio(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


class OptimizerTrial(NamedTuple):
    """The fastest way that the optimizer's class offers, and what it takes of a step one by one."""

    option: str
    ratio: Ratio


def goes_one_by_one(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it updates one tensor after another, as far as its options tell (on a CPU that is the default)."""
    groups = optimizer.param_groups
    if not all("foreach" in group for group in groups):
        return False
    on_host = all(p.device.type == "cpu" for group in groups for p in group["params"])
    return all(
        not group.get("fused") and not group["foreach"] and (group["foreach"] is False or on_host) for group in groups
    )


def optimizer_trial(optimizer: torch.optim.Optimizer) -> OptimizerTrial | None:
    """Try `fused` and `foreach` in place of one by one, on copies of the parameters and gradients."""
    if not type(optimizer).__module__.startswith("torch.optim") or not goes_one_by_one(optimizer):
        return None
    if sum(p.numel() * p.element_size() for group in optimizer.param_groups for p in group["params"]) > MOST_BYTES:
        return None
    plain = _copied(optimizer, foreach=False)
    best: OptimizerTrial | None = None
    for option, options in _OPTIONS.items():
        if option not in optimizer.param_groups[0]:
            continue
        try:
            other = _copied(optimizer, **options)
            found = ratio(plain.step, other.step)
        except (RuntimeError, TypeError, ValueError):
            continue
        if found is not None and (best is None or found.middle < best.ratio.middle):
            best = OptimizerTrial(option, found)
    return best


def _copied(optimizer: torch.optim.Optimizer, **options: Any) -> torch.optim.Optimizer:
    groups = []
    for group in optimizer.param_groups:
        params = []
        for parameter in group["params"]:
            clone = torch.nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
            if parameter.requires_grad:
                clone.grad = torch.zeros_like(clone) if parameter.grad is None else parameter.grad.detach().clone()
            params.append(clone)
        groups.append({**group, "params": params, **options})
    return type(optimizer)(groups)  # type: ignore[call-arg]
