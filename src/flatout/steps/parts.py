"""What the stretches of a step were: a ledger that is told of beginnings and ends, and knows no torch.

What runs between two known things gets its name from what follows it: work that leads to a backward pass was a forward
pass, work that leads to the next batch of the same loader without a backward pass was an evaluation, any other work is
the loop's own. So nothing has to be hooked but the known things themselves.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple, TypeAlias

from flatout.recording.timed import Part

Known: TypeAlias = Literal["data", "backward", "optimizer", "checkpoint", "compile"]


class Stretch(NamedTuple):
    """Seconds of one part. `source`: the loader, where a batch was waited for."""

    part: Part
    seconds: float
    source: Hashable = None


class Ledger:
    """The stretches of the step that goes on. Times are seconds of any clock that only goes forward."""

    def __init__(self, now: float) -> None:
        self._began = self._since = now
        self._open: list[tuple[Known, Hashable]] = []
        self._settled: list[Stretch] = []
        self._unsettled: list[Stretch] = []
        self._evaluating_from: int | None = None
        self._last_source: Hashable = None

    def begin(self, part: Known, now: float, source: Hashable = None) -> None:
        """A known thing begins. Inside another one of its kind it is part of that."""
        self._note(now)
        if not self._open:
            if part == "backward":
                self._settle("forward")
            elif part == "optimizer":
                self._settle("other")
            elif part == "data":
                self._ask(source)
        self._open.append((part, source))

    def end(self, now: float) -> None:
        """The known thing that began last ends."""
        self._note(now)
        if self._open:
            self._open.pop()

    def inside(self, part: Known) -> bool:
        """Whether a thing of that kind goes on."""
        return any(known == part for known, _ in self._open)

    def evaluation_begins(self, now: float) -> None:
        """A model was put into its evaluation mode: an evaluation, if it is put back before a backward pass."""
        self._note(now)
        if not self._open and self._evaluating_from is None:
            self._evaluating_from = len(self._unsettled)

    def evaluation_ends(self, now: float) -> None:
        """A model was put into its training mode."""
        self._note(now)
        if self._evaluating_from is not None:
            self._evaluated(self._evaluating_from)
            self._evaluating_from = None

    def step_ends(self, now: float) -> tuple[float, float, list[Stretch]]:
        """The step ends. Returns when it began, how long it was, and its stretches, which add up to that.

        Without an optimizer it ends where the next backward pass begins, so what is unsettled was a forward pass.
        """
        self._note(now)
        self._settle("forward")
        self._open.clear()  # an optimizer that raised an exception never said that it ended
        began, self._began = self._began, now
        stretches, self._settled = self._settled, []
        return began, now - began, stretches

    def _note(self, now: float) -> None:
        seconds, self._since = now - self._since, now
        if not self._open:
            self._unsettled.append(Stretch("other", seconds))
            return
        part, source = self._open[-1]
        into = self._unsettled if self._unsettled or part in ("data", "checkpoint", "compile") else self._settled
        into.append(Stretch(part, seconds, source))

    def _ask(self, source: Hashable) -> None:
        """A batch is asked for: was one of the same loader taken, and no backward pass made of it?"""
        for position, stretch in enumerate(self._unsettled):
            if stretch.part == "data" and stretch.source == source:
                self._evaluated(position)
                return
        if not any(stretch.part == "data" for stretch in self._unsettled):
            self._settle("other")

    def _evaluated(self, position: int) -> None:
        kept = self._unsettled[position:]
        self._unsettled[position:] = []
        self._settle("other")
        # What was settled as part of an evaluation has no source any more, so nothing takes it for a batch in use.
        self._settled += [s if s.part == "checkpoint" else Stretch("evaluation", s.seconds) for s in kept]

    def _settle(self, work: Part) -> None:
        self._settled += [s._replace(part=work) if s.part == "other" else s for s in self._unsettled]
        self._unsettled.clear()
        self._evaluating_from = None


def sums(stretches: list[Stretch]) -> dict[Part, float]:
    """Seconds by part."""
    found: dict[Part, float] = {}
    for stretch in stretches:
        found[stretch.part] = found.get(stretch.part, 0.0) + stretch.seconds
    return found
