"""Fits what is not known on one half of timm's model families, and scores the brackets of both halves.

Not known is how much of the card was outside PyTorch's allocator: a context of CUDA 11.3, published between 1.6 and
1.9 GiB for such cards. It is one number for all models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dry import Runner
from score import Line, share
from timm_brackets import GPU, USABLE_BYTES, Bracket, family, fitted_before

CONTEXTS_MIB = tuple(range(1620, 1960, 60))
"""Candidates, over the published range."""
FIT_GOAL, FAIL_GOAL, MISSED_GOAL, KEPT_GOAL = 0.97, 0.94, 0.01, 0.85


@dataclass(frozen=True)
class Verdict:
    """What the virtual GPU says to one batch on the whole card, and whether even its upper bound fits."""

    fits: bool
    surely_fits: bool


@dataclass(frozen=True)
class Try:
    """One batch of one row: whether it really fitted, and what the virtual GPU needs for it without a limit."""

    bracket: Bracket
    batch: int
    fitted: bool
    allocated_bytes: int
    reserved_bytes: int
    upper_bound_bytes: int

    def verdict(self, runner: Runner, context_mib: int) -> Verdict:
        """With that context. Where a limit makes PyTorch give cached blocks back, the script is run with it."""
        capacity = USABLE_BYTES - (context_mib << 20)
        if self.allocated_bytes > capacity:
            return Verdict(False, False)
        if self.reserved_bytes <= capacity:
            return Verdict(True, self.upper_bound_bytes <= capacity)
        limited = runner.run("timm_step.py", self.bracket.arguments(self.batch), GPU, capacity)
        fits = limited["outcome"] == "fits"
        return Verdict(fits, fits and limited["upper_bound_bytes"] <= capacity)


def measure(runner: Runner, bracket: Bracket) -> list[Try] | str:
    """Both batches of a row without a limit; the reason where the script does not run."""
    tries = []
    for batch in (bracket.batch, bracket.next_batch):
        if batch is None:
            continue
        told = runner.run("timm_step.py", bracket.arguments(batch), GPU)
        if told["outcome"] == "error":
            return str(told["message"]).strip().splitlines()[-1]
        tries.append(
            Try(bracket, batch, batch == bracket.batch, told["peak_allocated_bytes"], told["peak_reserved_bytes"],
                told["upper_bound_bytes"])
        )  # fmt: skip
    return tries


def fit_context(runner: Runner, tries: Sequence[Try]) -> tuple[int, dict[int, int]]:
    """The context in MiB that puts most tries on their right side (the middle one of several); the counts of all."""
    right = {mib: sum(t.verdict(runner, mib).fits == t.fitted for t in tries) for mib in CONTEXTS_MIB}
    best = max(right.values())
    good = [mib for mib, count in right.items() if count == best]
    return good[len(good) // 2], right


def score_half(name: str, tries: Sequence[Try], verdict: Callable[[Try], Verdict], *, counts: bool) -> list[Line]:
    """The four goals on one half. `counts`: these lines are goals, not only shown (as for the half fitted on)."""
    fitted = [t for t in tries if t.fitted]
    failed = [t for t in tries if not t.fitted]
    right_fit = sum(verdict(t).fits for t in fitted)
    right_fail = sum(not verdict(t).fits for t in failed)
    missed = sum(verdict(t).surely_fits for t in failed)
    kept = sum(verdict(t).surely_fits for t in fitted)

    def met(value: bool) -> bool | None:
        return value if counts else None

    return [
        Line(name, len(fitted), "reported batch fits, at least 97 %", share(right_fit, len(fitted)),
             met(right_fit >= FIT_GOAL * len(fitted))),
        Line(name, len(failed), "next batch fails, at least 94 %", share(right_fail, len(failed)),
             met(right_fail >= FAIL_GOAL * len(failed))),
        Line(name, len(failed), 'failures that the upper bound calls "fits", at most 1 %', share(missed, len(failed)),
             met(missed <= MISSED_GOAL * len(failed))),
        Line(name, len(fitted), 'upper bound says "fits" at the reported batch, at least 85 %',
             share(kept, len(fitted)), met(kept >= KEPT_GOAL * len(fitted))),
    ]  # fmt: skip


def undisputed(tries: Sequence[Try]) -> list[Try]:
    """Without the failures of batches that fitted on the same card with the PyTorch before (see `fitted_before`)."""
    before = fitted_before()
    return [t for t in tries if t.fitted or before.get((t.bracket.model, t.bracket.layout), 0) < t.batch]


def misses(tries: Sequence[Try], verdict: Callable[[Try], Verdict]) -> list[dict[str, Any]]:
    """The tries that came out wrong, with their sizes in GiB."""
    before = fitted_before()
    return [
        {
            "model": t.bracket.model,
            "family": family(t.bracket.model),
            "layout": t.bracket.layout,
            "batch": t.batch,
            "really": "fits" if t.fitted else "fails",
            "allocated_gib": round(t.allocated_bytes / 2**30, 2),
            "reserved_without_limit_gib": round(t.reserved_bytes / 2**30, 2),
            "called_sure": verdict(t).surely_fits,
            "fitted_with_older_pytorch": before.get((t.bracket.model, t.bracket.layout), 0) >= t.batch,
        }
        for t in tries
        if verdict(t).fits != t.fitted
    ]
