"""One of the script's own arguments, tried at several values: the largest that fits, and the fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from flatout.launch import Target
from flatout.virtual.dry_run import DryRun, Job, predict
from flatout.virtual.prediction import GOOD_NEWS, LargestBatch, Prediction, Result, Tried, with_results

if TYPE_CHECKING:
    from pathlib import Path

    from flatout.gpu import GPU


class Vary(msgspec.Struct, frozen=True):
    """`--vary batch-size=8..512`: the argument as the script spells it, and the values, in order.

    `doubling`: from the first value to the last by doubling, and then by halves between the largest that fits and the
    smallest that does not.
    """

    argument: str
    values: tuple[int, ...]
    doubling: bool


class Trial(msgspec.Struct, frozen=True):
    """One value, and what was predicted with it."""

    value: int
    result: Result


def with_value(target: Target, vary: Vary, value: int) -> Target:
    """The script with that argument behind its own, so that it is the one that counts."""
    return replace(target, arguments=(*target.arguments, vary.argument, str(value)))


def doubled(low: int, high: int) -> tuple[int, ...]:
    """`low`, twice as much, and so on up to `high`, which is always among them."""
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    return tuple(dict.fromkeys([*values, high]))


def try_values(vary: Vary, attempt: Callable[[int], Result], halvings: int = 3) -> list[Trial]:
    """Run the values in order; with `doubling` stop at the first that does not fit, and look between."""
    trials: list[Trial] = []
    for value in vary.values:
        result = attempt(value)
        trials.append(Trial(value, result))
        if result.says_nothing or (vary.doubling and result.outcome not in GOOD_NEWS):
            break
    if not vary.doubling or trials[-1].result.outcome != "out_of_memory":
        return trials
    low = max((t.value for t in trials if t.result.outcome in GOOD_NEWS), default=0)
    high = trials[-1].value
    unit = vary.values[0]
    for _ in range(halvings):
        middle = low + (high - low) // 2 // unit * unit  # sizes that are multiples of the smallest asked for
        if not low < middle < high:
            break
        trials.append(Trial(middle, attempt(middle)))
        low, high = (middle, high) if trials[-1].result.outcome in GOOD_NEWS else (low, middle)
    return sorted(trials, key=lambda trial: trial.value)


def summary(vary: Vary, trials: Sequence[Trial]) -> LargestBatch:
    """The largest value that fits (or may), and the fastest."""
    tried = tuple(_tried(trial) for trial in trials)
    fitting = [one.value for one in tried if one.outcome in GOOD_NEWS]
    rates = {one.value: one.samples_per_second for one in tried if one.samples_per_second is not None}
    rates = rates or {one.value: one.value_per_second for one in tried if one.value_per_second is not None}
    return LargestBatch(
        argument=vary.argument,
        largest=max(fitting, default=None),
        fastest=max(rates, key=lambda value: rates[value], default=None),
        tried=tried,
    )


def _rate(result: Result) -> float | None:
    return None if result.time is None else result.time.samples_per_second


def _tried(trial: Trial) -> Tried:
    result = trial.result
    memory = result.unlimited or result.memory
    return Tried(
        value=trial.value,
        outcome=result.outcome,
        needed_bytes=None if memory is None else memory.needed_bytes,
        usable_bytes=None if memory is None else memory.usable_bytes,
        step_seconds=None if result.time is None else result.time.step_seconds,
        value_per_second=None if result.time is None else trial.value / result.time.step_seconds,
        samples_per_second=_rate(result),
    )


def predict_varied(
    dry_run: DryRun, gpu: GPU, vary: Vary, scratch: Path, *, stdout_to_stderr: bool = False
) -> Prediction:
    """The script with each value, on one GPU. The result is that of the fastest, or of the largest where none is timed.

    The first run has the terminal; the others are silent. Raises as `predict` does.
    """
    seen: dict[int, Prediction] = {}

    def attempt(value: int) -> Result:
        run = replace(dry_run, target=with_value(dry_run.target, vary, value))
        job = Job(gpu, scratch / f"{value}.flatout", scratch)
        seen[value] = predict(run, [job], stdout_to_stderr=stdout_to_stderr, first_aloud=not seen)
        return seen[value].results[0]

    trials = try_values(vary, attempt)
    found = summary(vary, trials)
    best = found.fastest or found.largest or trials[0].value
    result = msgspec.structs.replace(seen[best].results[0], largest_batch=found)
    return with_results(seen[best], [result])
