"""Repository files name no place of the machine that they were written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SKIPPED_FOLDERS = {".git", "build", "dist", "__pycache__"}
TEXT = {".py", ".md", ".toml", ".txt", ".json", ".yml", ".yaml", ".cfg", ".svg", ".csv", ".html", ""}

# Spelled in pieces, so that this file does not convict itself.
FOLDERS = ("work", "tmp", "root")
LEAK = re.compile(r"(?<![\w.$}])/(?:" + "|".join(FOLDERS) + r")/[\w.]")


def _files() -> list[Path]:
    files = []
    for path in ROOT.rglob("*"):
        folders = path.relative_to(ROOT).parts[:-1]
        hidden = any(f in SKIPPED_FOLDERS or (f.startswith(".") and f not in {".ci", ".github"}) for f in folders)
        if (
            not hidden
            and path.name != ".git"
            and path.is_file()
            and path.suffix in TEXT
            and path.stat().st_size < 2_000_000
        ):
            files.append(path)
    return files


def leaks(text: str) -> list[str]:
    """The lines of `text` that name a machine's own place."""
    return [line.strip() for line in text.splitlines() if LEAK.search(line)]


def test_no_machine_path_is_in_a_file() -> None:
    found = {}
    for path in _files():
        if path == Path(__file__):
            continue
        lines = leaks(path.read_text(encoding="utf-8", errors="replace"))
        if lines:
            found[str(path.relative_to(ROOT))] = lines
    assert found == {}


def test_files_were_read() -> None:
    names = {str(path.relative_to(ROOT)) for path in _files()}
    assert {"pyproject.toml", ".ci/run", "Makefile", "src/flatout/errors.py"} <= names


@pytest.mark.parametrize("folder", ["work/main", "tmp/x", "root/.cache"])
def test_a_leak_is_found(folder: str) -> None:
    assert leaks(f"see /{folder}") == [f"see /{folder}"]


def test_a_relative_or_longer_path_is_no_leak() -> None:
    assert leaks("src/work/a.py https://example.org/tmp/a docs/root/b") == []
