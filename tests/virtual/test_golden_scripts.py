"""Each mistake of the golden table in a script of its own, under ``flatout predict``: exit code, words, file, line."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flatout.virtual.dry_run
from flatout.cli.main import run
from flatout.launch import supervise

sys.path.insert(0, str(Path(__file__).parent))
import warm_python
from command import ROOT, environment
from golden_errors.rows import Row
from golden_errors.scripts import script_of
from test_cuda_errors import ROWS, VERSION, kinds

GPU = "a100-40gb"
Predict = Callable[[Path, Path], tuple[int, dict[str, Any]]]
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a process that has loaded PyTorch is forked safely on Linux alone"
)


@pytest.fixture(scope="module")
def warm_python_command() -> Iterator[str]:
    """A command that takes a script and its arguments as ``python`` does, and is warm."""
    with tempfile.TemporaryDirectory(prefix="warm") as folder:
        address = os.path.join(folder, "socket")
        server = subprocess.Popen(
            [sys.executable, warm_python.__file__, "serve", address, GPU],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        command = Path(folder) / "python"
        words = [sys.executable, "-IS", warm_python.__file__, "run", address]
        command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        command.chmod(0o700)
        yield str(command)
        server.communicate()
        assert server.returncode == 0


@pytest.fixture
def predict_warm(warm_python_command: str, monkeypatch: pytest.MonkeyPatch) -> Predict:
    """``flatout predict`` with nothing replaced but the Python that runs the script."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(flatout.virtual.dry_run, "supervise", functools.partial(supervise, python=warm_python_command))
    return lambda script, folder: told(run(arguments(script, folder / "warm.json")), folder / "warm.json")


def arguments(script: Path, written: Path) -> list[str]:
    return ["predict", "--gpu", GPU, "--json", str(written), str(script)]


def told(code: int, written: Path) -> tuple[int, dict[str, Any]]:
    return code, json.loads(written.read_text("utf-8"))["results"][0]


def predict_cold(script: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    """The command as a person runs it."""
    written = folder / "cold.json"
    ran = subprocess.run(
        [sys.executable, "-m", "flatout", *arguments(script, written)],
        env=environment(), cwd=ROOT, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    return told(ran.returncode, written)


def written_out(row: Row, folder: Path) -> tuple[Path, int]:
    text, line = script_of(row)
    script = folder / "train.py"
    script.write_text(text, "utf-8")
    return script, line


@pytest.mark.parametrize("row", ROWS)
def test_golden_script(
    row: Row, predict_warm: Predict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    script, line = written_out(row, tmp_path)
    code, result = predict_warm(script, tmp_path)
    output, _ = capfd.readouterr()
    if not row.applies(VERSION):
        assert (code, result["error"], output) == (0, None, "the mistake went unnoticed\n")
        return
    error = result["error"]
    assert error is not None
    assert error["message"] == row.text(VERSION)
    assert error["type"] in [f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.") for kind in kinds(row)]
    assert (error["file"], error["line"]) == (str(script), line)
    assert (code, result["outcome"], result["exit_code"], output) == (1, "error", 1, "")


@pytest.mark.parametrize("row", ROWS[:: len(ROWS) // 2])
def test_the_command_says_the_same(row: Row, predict_warm: Predict, tmp_path: Path) -> None:
    script, _ = written_out(row, tmp_path)
    assert predict_warm(script, tmp_path) == predict_cold(script, tmp_path)


def predicted(text: str, predict: Predict, folder: Path) -> tuple[int, dict[str, Any]]:
    script = folder / "train.py"
    script.write_text(text, "utf-8")
    return predict(script, folder)


WORKER = """\
import torch
from torch.utils.data import DataLoader


class Numbers:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.zeros(1, device="cuda")


torch.ones(1, device="cuda")
for batch in DataLoader(Numbers(), num_workers=1):
    print("not reached")
"""


def test_cuda_in_a_forked_worker(predict_warm: Predict, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, result = predicted(WORKER, predict_warm, tmp_path)
    error = result["error"]
    assert (code, error["type"], error["file"], error["line"]) == (1, "RuntimeError", str(tmp_path / "train.py"), 14)
    assert error["message"].startswith("Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback")
    assert error["message"].endswith(
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
        "the 'spawn' start method\n"
    )
    output, words = capfd.readouterr()
    assert output == ""
    for text in (error["message"], words):
        assert f"{os.sep}flatout{os.sep}" not in text


def test_what_is_printed_is_what_is_told(
    predict_warm: Predict, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, result = predicted("import torch\ntorch.ones(2, 2, device='cuda').expand(3)", predict_warm, tmp_path)
    said = f"RuntimeError: {result['error']['message']}\n"
    assert said.startswith("RuntimeError: expand(torch.cuda.FloatTensor{[2, 2]}, size=[3]): ")
    assert said in capfd.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
def test_a_note_stands_beside_the_message(
    predict_warm: Predict, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, result = predicted("import torch\ntorch.ones(3).cuda()[torch.tensor([5]).cuda()]", predict_warm, tmp_path)
    note = "flatout: index 5 is out of range: there are 3"
    assert result["error"]["notes"] == [note]
    assert note not in result["error"]["message"]
    assert capfd.readouterr().err.count(note) == 2  # below the traceback, and in the report
