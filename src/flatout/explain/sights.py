"""What a real run was seen to do, for rules to look at."""

from __future__ import annotations

from collections.abc import Sequence

from flatout.explain.names import NAMES
from flatout.explain.subject import HIGH_RATIO, MEDIUM_RATIO, WORTH_RATIO
from flatout.findings import Finding, Remedy, Saving, Severity
from flatout.recording.observation import Observation, Sight


class Sights:
    """The observations of a run whose step takes `step_seconds`."""

    def __init__(self, seen: Sequence[Observation], step_seconds: float) -> None:
        self._seen = seen
        self.step_seconds = step_seconds

    def of(self, sight: Sight) -> list[Observation]:
        """Those of that kind."""
        return [one for one in self._seen if one.sight == sight]

    def tried(self, seen: Observation) -> Saving | None:
        """What the alternative that was tried saves; None where that is not worth a word, or not sure to be a gain."""
        saved, low = seen.saved_seconds or 0.0, seen.low_seconds or 0.0
        if saved < WORTH_RATIO * self.step_seconds or low <= 0:
            return None
        return Saving(seconds_per_step=saved, low=low, high=seen.high_seconds)

    def by_saving(self, saving: Saving) -> Severity:
        """The severity of what surely saves so much of a step."""
        share = (saving.low or 0.0) / self.step_seconds
        return "high" if share >= HIGH_RATIO else "medium" if share >= MEDIUM_RATIO else "low"


def finding_at(
    seen: Observation, code: str, message: str, severity: Severity, saving: Saving | None, remedy: Remedy
) -> Finding:
    """A finding at the line of what was seen, with its evidence."""
    line = 0 if seen.place is None else seen.place.line
    return Finding(
        code=code,
        name=NAMES[code],
        severity=severity,
        message=message,
        file="" if seen.place is None else seen.place.file,
        line=line,
        column=1,
        end_line=line,
        end_column=1,
        evidence={"count": seen.count, "steps": seen.steps, **seen.evidence},
        saving=saving,
        remedy=remedy,
    )
