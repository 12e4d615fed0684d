"""FO503: every backward pass keeps its graph, and none uses it again."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.explain.sights import Sights, finding_at
from flatout.findings import Finding, Remedy

_OFTEN_RATIO = 0.9
_REMEDY = Remedy(
    text="leave retain_graph out; where PyTorch then complains, something of an earlier step is not detached"
)


def find(sights: Sights) -> Iterator[Finding]:
    """Lines where that was so in nearly all steps."""
    for seen in sights.of("graph_retained"):
        if seen.evidence.get("steps_seen", 0) >= _OFTEN_RATIO * seen.steps:
            message = "retain_graph=True in every step, and no other backward pass goes through that graph"
            yield finding_at(seen, "FO503", message, "medium", None, _REMEDY)
