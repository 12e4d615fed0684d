"""`flatout predict` as a person runs it: a process of its own, with a virtual GPU in another."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "scripts"
NEEDS: dict[str, list[str]] = {
    name: entry.get("needs", []) for name, entry in json.loads((SCRIPTS / "catalogue.json").read_text("utf-8")).items()
}


@dataclass(frozen=True)
class Predicted:
    """What the command said: its exit code, the script's own output, the report, and the first result of the JSON."""

    code: int
    stdout: str
    report: str
    result: dict[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.result["facts"]
        return facts


def environment() -> dict[str, str]:
    """One thread each: what is not computed needs no second core."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def predict(folder: Path, script: str, *arguments: str, gpu: str = "a100", options: tuple[str, ...] = ()) -> Predicted:
    """Predict a script of tests/scripts; skips where a package that it needs is not installed."""
    for package in NEEDS.get(script, []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{script} needs {package}, which is not installed")
    written = folder / "prediction.json"
    command = [sys.executable, "-m", "flatout", "predict", "--gpu", gpu, "--json", str(written), *options]
    ran = subprocess.run(
        [*command, str(SCRIPTS / script), *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert written.exists(), ran.stderr
    result = json.loads(written.read_text("utf-8"))["results"][0]
    assert "flatout/" not in ran.stderr, ran.stderr  # no traceback of flatout's own
    return Predicted(ran.returncode, ran.stdout, ran.stderr, result)
