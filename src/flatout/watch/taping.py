"""The measured tape of steps on a CPU: one lane of batches and of the host's own work.

With workers what is waited for a batch follows from what making one takes them, so the tape has no waiting in it: only
taking a batch over. Without, making it is the wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from flatout.recording.schema import Phase
from flatout.recording.tape import Enter, Event, Fetch, Loader, Tape, Work
from flatout.recording.timed import Part
from flatout.steps.parts import Stretch

if TYPE_CHECKING:
    from flatout.recording.schema import Place
    from flatout.watch.loaders import LoaderFacts

STEPS = 8
"""Steps on the tape: those whose own work is nearest to its median. What batches take comes from all of them."""

_NOT_TRAINING: frozenset[Part] = frozenset(("evaluation", "checkpoint", "compile"))
_PHASES: dict[Part, Phase] = {"forward": "forward", "backward": "backward", "optimizer": "optimizer", "other": "other"}


def tape_of(steps: Sequence[Sequence[Stretch]], loaders: Sequence[LoaderFacts], completed: int) -> Tape | None:
    """The tape of steady steps, latest last; None where there are none."""
    plain = [step for step in steps if step and not any(stretch.part in _NOT_TRAINING for stretch in step)]
    fetches = [sum(stretch.part == "data" for stretch in step) for step in plain]
    if not plain:
        return None
    usual = sorted(fetches)[len(fetches) // 2]  # the first step of an epoch asks once more, and gets a new iterator
    plain = [step for step, count in zip(plain, fetches) if count == usual]
    work = [sum(stretch.seconds for stretch in step if stretch.part != "data") for step in plain]
    middle = median(work)
    chosen = sorted(sorted(range(len(plain)), key=lambda number: abs(work[number] - middle))[:STEPS])
    places: dict[Place, int] = {}
    events: list[Event] = []
    for number in chosen:
        for stretch in plain[number]:
            if isinstance(stretch.source, int):
                facts = loaders[stretch.source]
                where = None if facts.place is None else places.setdefault(facts.place, len(places))
                events.append(Fetch(facts.number, where))
            elif stretch.seconds > 0:
                events += [Enter(_PHASES.get(stretch.part, "other")), Work(stretch.seconds)]
    return Tape(
        events=tuple(events),
        steps=len(chosen),
        places=tuple(places),
        loaders=tuple(_loader(facts) for facts in loaders),
        first_step=max(0, completed - len(steps)),
    )


def _loader(facts: LoaderFacts) -> Loader:
    made = facts.typical_seconds()
    waited = facts.wait_seconds / facts.batches if facts.batches else 0.0
    return Loader(
        batch_seconds=waited * max(1, facts.workers) if made is None else made,
        workers=facts.workers,
        prefetch_factor=facts.prefetch_factor,
        samples=facts.samples,
        pinned=facts.pinned,
        busy_ratio=facts.busy_ratio(),
    )
