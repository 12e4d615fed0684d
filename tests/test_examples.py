"""The bundled examples really train, on a CPU, and know nothing of flatout; their twins with Loop train the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/train.py"))


def _train(name: str, folder: Path, *arguments: str, script: str = "train.py") -> str:
    # One thread: those of several tests on few cores wait for each other.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(EXAMPLES.parent / "src")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name / script), "--device", "cpu", *arguments],
        cwd=folder,
        env=environment,
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


TWIN = "train_with_loop.py"
SMALL = ("--layers", "2", "--width", "64", "--lr", "8e-3", "--eval-every", "10", "--batch-size", "8")


def _losses(printed: str) -> list[str]:
    """What was printed, without the seconds."""
    return re.sub(r", [\d.]+ s$", "", printed, flags=re.MULTILINE).splitlines()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("digits", ("--epochs", "3")),
        ("digits", ("--epochs", "2", "--amp", "--workers", "2", "--batch-size", "96")),
        ("chargpt", ("--steps", "40", "--sample", "30", *SMALL)),
        ("chargpt", ("--steps", "20", "--dropout", "0.1", "--accumulate", "3", *SMALL)),
    ],
    ids=["digits", "digits-amp", "chargpt", "chargpt-dropout"],
)
def test_a_twin_prints_the_same_losses(tmp_path: Path, name: str, arguments: tuple[str, ...]) -> None:
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits are scikit-learn's")
    plain = _losses(_train(name, tmp_path, *arguments))
    assert _losses(_train(name, tmp_path, *arguments, script=TWIN)) == plain
    assert sum("val loss" in line for line in plain) > 1


@pytest.mark.integration
def test_chargpts_twin_goes_on_where_it_stopped(tmp_path: Path) -> None:
    arguments = ("--steps", "60", *SMALL, "--eval-every", "30")
    whole = _losses(_train("chargpt", tmp_path, *arguments, script=TWIN))
    (checkpoint,) = (tmp_path / "chargpt-checkpoints").iterdir()
    assert checkpoint.name == "step-00000060.pt"
    again = _losses(_train("chargpt", tmp_path, *arguments, "--resume", script=TWIN))
    assert again[1].startswith("resumed at step 60, best val loss")
    assert len(again) == 2  # nothing is left to do
    assert whole[-1].endswith(again[1].rpartition(" ")[2])


def _code_lines(script: Path) -> int:
    lines = [line.strip() for line in script.read_text("utf-8").splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in lines)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.parent.name)
def test_a_twin_is_shorter(script: Path) -> None:
    twin = script.with_name(TWIN)
    assert _code_lines(twin) <= 0.9 * _code_lines(script)
    surface = re.compile(r"add_argument\(\"(--[\w-]+)\"")
    assert surface.findall(twin.read_text("utf-8")) == surface.findall(script.read_text("utf-8"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.parent.name)
def test_an_example_is_plain_pytorch(script: Path) -> None:
    assert "flatout" not in script.read_text("utf-8")
    assert (script.parent / "README.md").exists()


def test_there_are_two() -> None:
    assert [p.parent.name for p in SCRIPTS] == ["chargpt", "digits"]
