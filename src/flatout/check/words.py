"""A table of names written as text."""

from __future__ import annotations


def words(text: str) -> list[str]:
    """The words of `text`."""
    return text.split()
