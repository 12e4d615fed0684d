"""Reading and editing Python source: positions, notebooks, Markdown, edits that leave every other byte alone."""

from __future__ import annotations

from flatout.source.document import Document, Kind, Place, kind_of, read_document
from flatout.source.edits import Applicability, Edit, Fix, apply_edits
from flatout.source.text import SourceText, Span

__all__ = [
    "Applicability",
    "Document",
    "Edit",
    "Fix",
    "Kind",
    "Place",
    "SourceText",
    "Span",
    "apply_edits",
    "kind_of",
    "read_document",
]
