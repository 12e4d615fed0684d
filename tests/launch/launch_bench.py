"""A script in a folder of its own, run plainly and run supervised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flatout.launch import Exit, Target, supervise

HERE = Path(__file__).parent


@dataclass
class Said:
    """What a run left: output bytes, and for a supervised run its `Exit`."""

    out: bytes
    err: bytes
    exit: Exit


class Bench:
    """Runs scripts in `folder`."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.notes_file = folder / "notes.jsonl"
        self.environment = {**os.environ, "PYTHONPATH": str(HERE)}
        self._capture = capture
        patch.chdir(folder)

    def write(self, code: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    def run(self, code: str = "", *arguments: str, hook: str = "notes", **options: Any) -> Said:
        """Run `code` supervised, or where it is empty the target given."""
        target = options.pop("target", Target(path="script.py", arguments=arguments))
        if code:
            self.write(code)
        self._capture.readouterr()
        settings = {"environment": self.environment, "options": {"notes": str(self.notes_file)}} | options
        exit = supervise(target, hook=hook if ":" in hook else f"launch_hooks:{hook}", **settings)
        return Said(*self._capture.readouterr(), exit)

    def plain(self, target: Target, python: str = sys.executable) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([python, *target.command()], env=self.environment, capture_output=True, check=False)

    def notes(self) -> list[list[str]]:
        return [json.loads(line) for line in self.notes_file.read_text().splitlines()]
