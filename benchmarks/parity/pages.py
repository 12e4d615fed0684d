"""Putting a made table between two marks of a page."""

from __future__ import annotations

from pathlib import Path


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between the marks; the marks must be there."""
    before, opened, rest = page.read_text("utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise SystemExit(f"{page}: the marks {begin} and {end} are not both there")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", "utf-8")
