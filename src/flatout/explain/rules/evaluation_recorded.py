"""FO502: a model in evaluation mode records a graph that nobody goes back through."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.explain.sights import Sights, finding_at
from flatout.findings import Finding, Remedy

_REMEDY = Remedy(text="with torch.no_grad(): around the evaluation", safe=True)


def find(sights: Sights) -> Iterator[Finding]:
    """Where a model was called so."""
    for seen in sights.of("evaluation_recorded"):
        message = "the evaluation records a graph: what layers computed stays in memory as long as the result does"
        yield finding_at(seen, "FO502", message, "medium", None, _REMEDY)
