"""What the names of the script hold, counted after steps 4, 8, 16 ..., and what grew from count to count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flatout.watch.notes import Notes

if TYPE_CHECKING:
    from flatout.watch.census import Held, Holder

FIRST_STEP, LAST_STEP = 4, 4096


def is_counted(step: int) -> bool:
    """Whether it is counted after so many steps."""
    return FIRST_STEP <= step <= LAST_STEP and step & (step - 1) == 0


class Counting:
    """The counts so far. `process` is this process, for psutil."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._counts: list[tuple[int, dict[Holder, Held]]] = []
        self._resident: list[tuple[int, int]] = []

    def count(self, step: int) -> None:
        """Count now, after so many steps."""
        from flatout.watch.census import census

        self._counts.append((step, census()))
        self._resident.append((step, self._process.memory_info().rss))

    def note(self, notes: Notes, steps: int) -> None:
        """Note what grew."""
        from flatout.watch.growth import growths

        for growth in growths(self._counts):
            if growth.place is None:
                continue
            note = notes.of("graph_grows" if growth.nodes_per_step > 0 else "memory_grows", growth.place)
            note.add(steps, count=len(self._counts))
            note.evidence = {
                "name": growth.holder.name,
                "bytes_per_step": growth.bytes_per_step,
                "tensors_per_step": growth.tensors_per_step,
                "nodes_per_step": growth.nodes_per_step,
                "given_anew": growth.rebound,
                "process_bytes_per_step": self._process_bytes_per_step(),
            }

    def _process_bytes_per_step(self) -> float | None:
        """Between the last two counts."""
        if len(self._resident) < 2:
            return None
        (before, less), (after, more) = self._resident[-2:]
        return (more - less) / (after - before)
