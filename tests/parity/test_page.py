"""docs/loop.md: its two programs print the same, and the tests that it names exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "loop.md").read_text("utf-8")
COMPLAINTS = 21  # in the list that the page answers


@pytest.mark.integration
def test_the_plain_program_and_the_last_one_print_the_same(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(programs) == 2
    assert len(programs[1].splitlines()) < len(programs[0].splitlines()) + 4  # and saves, and resumes
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    printed = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for program in programs
    ]
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == 5
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-00000050.pt", "step-00000100.pt"]


def test_every_complaint_is_answered() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, COMPLAINTS + 1))
    assert all("tests/" in answer or "not ours, because" in answer for _, answer in rows)


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/.]+\.py(?:::\w+)?)`", PAGE))))
def test_a_named_test_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert re.search(rf"^def {name or 'test_'}", (ROOT / path).read_text("utf-8"), flags=re.MULTILINE)
