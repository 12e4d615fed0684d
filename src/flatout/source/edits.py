"""Edits of a text by offset. Everything outside an edit stays as it is, to the byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

# As ruff has it: `safe` computes the same, `unsafe` may not and is applied only on request, `display` is only shown.
Applicability = Literal["safe", "unsafe", "display"]


class Edit(NamedTuple):
    """Put `content` in place of the characters from `start` to `end` (exclusive)."""

    start: int
    end: int
    content: str


class Fix(NamedTuple):
    """Edits that belong together: all are made, or none."""

    message: str  # an imperative: "Replace with `torch.amp.autocast('cuda')`"
    edits: tuple[Edit, ...]
    applicability: Applicability = "safe"


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """`text` with every edit made. Raises ValueError where two overlap; equal ones count once."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(set(edits)):
        if edit.start < done:
            raise ValueError(f"edits overlap at offset {edit.start}")
        pieces += (text[done : edit.start], edit.content)
        done = edit.end
    return "".join((*pieces, text[done:]))
