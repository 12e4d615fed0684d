"""What a Loop was asked for, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from flatout.errors import UsageError

LAST_WINDOW = ("step", "carry", "drop")
STRATEGIES = ("auto", "ddp", "fsdp")
SCHEDULES = ("step", "epoch", "manual")


@dataclass(frozen=True)
class Settings:
    """The arguments of `Loop`, see there."""

    accumulate: int = 1
    last_window: str = "step"
    clip_norm: float | None = None
    schedule: str = "step"
    strategy: str = "auto"
    nan: str = "raise"

    def __post_init__(self) -> None:
        if not isinstance(self.accumulate, int) or isinstance(self.accumulate, bool) or self.accumulate < 1:
            raise UsageError(
                f"Loop(accumulate={self.accumulate!r}): a window holds at least one micro-batch; give a whole number "
                "from 1 (1: no accumulation)"
            )
        number = isinstance(self.clip_norm, int | float) and not isinstance(self.clip_norm, bool)
        above_zero = number and self.clip_norm is not None and self.clip_norm > 0
        if self.clip_norm is not None and not above_zero:
            raise UsageError(
                f"Loop(clip_norm={self.clip_norm!r}): a norm is a number above 0; give None for no clipping"
            )
        _one_of("last_window", self.last_window, LAST_WINDOW)
        _one_of("schedule", self.schedule, SCHEDULES)
        _one_of("strategy", self.strategy, STRATEGIES)
        _one_of("nan", self.nan, ("raise", "ignore"))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"Loop({name}={value!r}): not one of {', '.join(allowed)}")
