"""FO605 on a CPU: the optimizer updates one tensor after another, and another way of it was tried."""

from __future__ import annotations

from collections.abc import Iterator

from flatout.explain.sights import Sights, finding_at
from flatout.findings import Finding, Remedy


def find(sights: Sights) -> Iterator[Finding]:
    """Where the other way was surely faster."""
    for seen in sights.of("optimizer_alone"):
        saving = sights.tried(seen)
        if saving is not None:
            name, option = seen.evidence.get("class"), seen.evidence.get("option")
            message = f"{name} updates {seen.evidence.get('tensors')} tensors one after another"
            remedy = Remedy(text=f"{name}(..., {option}=True); the last digits may differ", speedup="fused-optimizer")
            yield finding_at(seen, "FO605", message, sights.by_saving(saving), saving, remedy)
