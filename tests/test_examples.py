"""The bundled examples really train, on a CPU, and know nothing of flatout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/train.py"))


def _train(name: str, folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name / "train.py"), "--device", "cpu", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # threads of several tests on few cores wait for each other
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _last(pattern: str, text: str) -> float:
    return float(re.findall(pattern + r" ([\d.]+)", text)[-1])


@pytest.mark.integration
@pytest.mark.parametrize("amp", [(), ("--amp",)], ids=["float32", "amp"])
def test_digits_are_learnt(tmp_path: Path, amp: tuple[str, ...]) -> None:
    pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    printed = _train("digits", tmp_path, "--epochs", "4", *amp)
    assert _last("accuracy", printed) > 0.96
    assert _last("val loss", printed) < 0.6  # guessing is ln 10 = 2.30
    assert (tmp_path / "digits.pt").exists()


@pytest.mark.integration
def test_chargpt_learns_and_resumes(tmp_path: Path) -> None:
    small = ["--layers", "2", "--width", "64", "--lr", "8e-3", "--eval-every", "100"]
    printed = _train("chargpt", tmp_path, "--steps", "100", *small)
    assert _last("val loss", printed) < 2.6  # the frequency of the letters alone gives 3.17
    resumed = _train("chargpt", tmp_path, "--steps", "200", "--resume", "--sample", "20", *small)
    assert "resumed at step 100" in resumed
    # The learning rate of a longer schedule is high again at step 100: it takes some steps until the loss is lower.
    assert _last("val loss", resumed) < _last("val loss", printed)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.parent.name)
def test_an_example_is_plain_pytorch(script: Path) -> None:
    assert "flatout" not in script.read_text("utf-8")
    assert (script.parent / "README.md").exists()


def test_there_are_two() -> None:
    assert [p.parent.name for p in SCRIPTS] == ["chargpt", "digits"]
