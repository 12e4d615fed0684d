"""What fills a GPU: the parts of its memory, each with a letter, a word and a colour.

The letter and the word carry the meaning; the colour only repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flatout.report.bars import Kind
from flatout.virtual.prediction import Memory


@dataclass(frozen=True)
class Part:
    """So many bytes of one kind."""

    kind: Kind
    size_bytes: int


# Colours: softened from the palette of Okabe and Ito (2008), which people who do not see red or green can tell apart.
CATEGORY_KINDS: dict[str, Kind] = {
    "parameters": Kind("P", "parameters", "#6aa9e0"),
    "gradients": Kind("G", "gradients", "#4db28a"),
    "optimizer": Kind("O", "optimizer", "#d8c455"),
    "activations": Kind("A", "activations", "#e39a52"),
    "inputs": Kind("I", "inputs", "#c78fb9"),
    "workspace": Kind("W", "workspace", "#cf6f62"),
    "other": Kind("X", "other", "#86a9ba"),
}
CACHED = Kind("R", "reserved, unused", "#8a8a8a")
CONTEXT = Kind("C", "CUDA context", "#b4b4b4")
UNSURE = Kind("?", "perhaps more", "#e2e2e2")
FREE = Kind(".", "free", "")


def parts_of(memory: Memory) -> list[Part]:
    """What is in the GPU at the peak, largest meaning first; what is empty is left out. Free memory is not a part.

    PyTorch reserves more than it hands out: the difference is `reserved, unused`. `perhaps more` is the distance to the
    upper bound.
    """
    known = [Part(kind, memory.by_category.get(name, 0)) for name, kind in CATEGORY_KINDS.items()]
    unknown_bytes = sum(size for name, size in memory.by_category.items() if name not in CATEGORY_KINDS)
    if unknown_bytes > 0:
        known[-1] = Part(known[-1].kind, known[-1].size_bytes + unknown_bytes)
    filled_bytes = sum(part.size_bytes for part in known)
    known.append(Part(CACHED, memory.peak_reserved_bytes - filled_bytes))
    known.append(Part(CONTEXT, memory.context_bytes))
    known.append(Part(UNSURE, memory.needed_at_most_bytes - memory.needed_bytes))
    return [part for part in known if part.size_bytes > 0]


def free_part(memory: Memory) -> Part:
    """What stays free for certain, at least 0 bytes."""
    return Part(FREE, max(0, memory.usable_bytes - memory.needed_at_most_bytes))
