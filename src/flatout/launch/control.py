"""The private folder through which supervisor and child talk: JSON files, written whole or not at all.

    orders.json      to the child: the hook, its options, where flatout is, the environment to put back
    sitecustomize.py what Python runs in the child before anything else (a copy of `entry.py`)
    started          from the child: the hook was called and the script begins
    trouble.json     from the child: why flatout could not begin
    report.json      from the child: the exception that ended the script, whether it was stopped
    crash.txt        from the child's last breath: where each thread was (`faulthandler`)

Standard library only: both sides use it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

JSON = dict[str, Any]


class Control:
    """One such folder. A file that is missing or half written reads as an empty dict, or an empty text."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.crash = self.folder / "crash.txt"

    def paths(self) -> list[str]:
        """All files that are written here while the script runs."""
        names = ["started", "crash.txt"]
        names += [f"{name}.{end}" for name in ("orders", "report") for end in ("json", "half")]
        return [str(self.folder / name) for name in names]

    def write(self, name: str, content: JSON) -> None:
        """Put `content` into ``name.json``."""
        half = self.folder / f"{name}.half"
        half.write_text(json.dumps(content), encoding="utf-8")
        os.replace(half, self.folder / f"{name}.json")

    def read(self, name: str) -> JSON:
        """What ``name.json`` holds."""
        try:
            content = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def mark_started(self) -> None:
        """Say that the script begins."""
        (self.folder / "started").touch()

    def has_started(self) -> bool:
        """Whether the child said so."""
        return (self.folder / "started").exists()

    def read_crash(self) -> str:
        """What `faulthandler` left."""
        try:
            return self.crash.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
