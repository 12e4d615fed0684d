"""Runs killed with SIGKILL at random moments, resumed, and compared to the last bit with those that were not.

The moments are new each time; killed_training.py, which does it, can be run by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks its runs, and this system cannot")


def killed(folder: Path, kills: int, *, precision: str, workers: int = 0, ranks: int = 1) -> list[dict[str, Any]]:
    """What became of this many killed and resumed runs."""
    arguments = [str(part) for part in (folder, kills, precision, workers, ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[2] / "src")}
    script = [sys.executable, str(HERE / "killed_training.py"), *arguments]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    reports: list[dict[str, Any]] = json.loads(done.stdout)["reports"]
    assert len(reports) == kills
    for report in reports:
        assert report["killed"]
        assert report["resumed_well"], report
        assert report["equal"], report
        assert report["left_over"] == 0, report
        assert report["kept"] in (2, 3), report  # 3: killed between the last rename and the removal
    return reports


def test_fifty_kills_anywhere_change_nothing(tmp_path: Path) -> None:
    reports = killed(tmp_path, 50, precision="fp16")
    assert sum(report["unfinished"] for report in reports) >= 1  # killed while it wrote
    assert len({tuple(report["versions"]) for report in reports}) >= 5  # all over the run


def test_kills_with_workers(tmp_path: Path) -> None:
    killed(tmp_path, 4, precision="fp32", workers=2)


def test_kills_of_two_ranks(tmp_path: Path) -> None:
    killed(tmp_path, 5, precision="fp32", ranks=2)
