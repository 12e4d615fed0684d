"""FO501, FO509, FO514: memory that grows with every step, and the name that holds it."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.explain.sights import Sights, finding_at
from flatout.findings import Finding, Remedy, Saving

NOTABLE_BYTES = 1024
"""A step. Below, a million steps keep less than a gigabyte: lists of numbers for a plot are none of our business."""

_DETACH = Remedy(text="keep loss.detach() or loss.item(), not the loss: with it stays the graph that made it")
_HIDDEN = Remedy(text="detach it between the steps: h = h.detach(), or a tuple of those")
_CLEAR = Remedy(text="clear it once an epoch, or keep what is computed of it in place of the tensors")


def find(sights: Sights) -> Iterator[Finding]:
    """Names that grew from every count to the next, evenly."""
    for seen in sights.of("graph_grows"):
        grown = seen.evidence.get("process_bytes_per_step") or 0.0
        nodes = seen.evidence.get("nodes_per_step", 0.0)
        message = (
            f"`{seen.evidence.get('name')}` keeps the graphs of all steps so far, {nodes:,.0f} nodes more with each"
        )
        code, remedy = ("FO509", _HIDDEN) if seen.evidence.get("given_anew") else ("FO501", _DETACH)
        yield finding_at(seen, code, message, "high", Saving(bytes=int(grown)) if grown > 0 else None, remedy)
    for seen in sights.of("memory_grows"):
        size = seen.evidence.get("bytes_per_step", 0.0)
        if size >= NOTABLE_BYTES:
            message = f"`{seen.evidence.get('name')}` holds more tensors with every step and is never cleared"
            yield finding_at(seen, "FO514", message, "medium", Saving(bytes=int(size)), _CLEAR)
