"""The command with real children, and in them a hook that records without any PyTorch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flatout.recording import open_recording

HOOK = """
import time
from flatout.recording import Writer
from flatout.recording.schema import Ending, Failure, Peak, Run, Step

class Hook:
    def __init__(self, writer):
        self.writer = writer

    def finished(self, error, failure=None):
        if error is None:
            self.writer.close(Ending("completed", 0))
        else:
            self.writer.close(Ending("error", 1, Failure(type(error).__name__, str(error))))

def install(options):
    run = Run("virtual", options["script"], (), "2.13.0", time.time())
    writer = Writer(options["recording"], run)
    writer.peak(Peak(1 << 30, 2 << 30, 2 << 30, 0, "forward", None, {"activations": 1 << 30}))
    writer.step(Step(0, 5, 0, 1 << 30))
    writer.doing("step 1")
    return Hook(writer)
"""
FLATOUT = """
import sys
from flatout.virtual import dry_run
dry_run.HOOK = "hook_without_torch:install"
from flatout.cli.main import main
main()
"""

pytestmark = pytest.mark.integration


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "hook_without_torch.py").write_text(HOOK)
    (tmp_path / "flatout_without_torch.py").write_text(FLATOUT)
    return tmp_path


def start(here: Path, *arguments: str) -> subprocess.Popen[str]:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{source}", "PATH": str(here), "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, "flatout_without_torch.py", "predict", *arguments],
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def test_the_scripts_output_is_its_own_and_comes_once(here: Path) -> None:
    (here / "train.py").write_text("import sys\nprint('hello', sys.argv[1:])\n")
    child = start(here, "--gpu", "h100,t4", "train.py", "--gpu", "0")
    out, err = child.communicate(timeout=60)
    assert out == "hello ['--gpu', '0']\n"
    assert "H100 SXM 80 GB  fits" in err
    assert child.returncode == 0


def test_json_has_standard_output_for_itself(here: Path) -> None:
    (here / "train.py").write_text("print('hello')\n")
    child = start(here, "--gpu", "h100", "--json", "-", "train.py")
    out, err = child.communicate(timeout=60)
    assert json.loads(out)["results"][0]["outcome"] == "fits"
    assert "hello" in err


def test_an_exception_is_shown_as_python_shows_it_and_then_told(here: Path) -> None:
    (here / "train.py").write_text("def step():\n    raise RuntimeError('CUDA error: oh')\n\nstep()\n")
    child = start(here, "--gpu", "h100", "train.py")
    out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("", 1)
    assert err.count("Traceback") == 1
    assert "fails  RuntimeError" in err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os, time\ntime.sleep(1.2)\nos.abort()\n", ["fails  SIGABRT", "aborted by C++ code", "step 1"]),
        ("import time\ntime.sleep(60)\n", ["cannot tell", "ran out after 1 step", "--timeout"]),
        ("import sys\nsys.exit(3)\n", ["fails  the script ended itself after 1 step", "exit code 3"]),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_process_that_ends_badly_is_told(here: Path, source: str, words: list[str]) -> None:
    (here / "train.py").write_text(source)
    child = start(here, "--gpu", "h100", "--timeout", "2s", "-o", "run.flatout", "train.py")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    with open_recording(here / "run.flatout") as recording:
        assert recording.ending is not None
    said = " ".join(err.split("PyTorch 2.13.0")[-1].split())
    assert all(" ".join(word.split()) in said for word in words), err


def test_a_script_that_is_not_there_is_one_line(here: Path) -> None:
    child = start(here, "--gpu", "h100,t4", "missing.py")
    out, err = child.communicate(timeout=60)
    assert (out, child.returncode) == ("", 2)
    assert err.startswith("flatout: missing.py")
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("gpus", ["h100", "h100,t4,a100"])
def test_ctrl_c_ends_every_child(here: Path, gpus: str) -> None:
    (here / "train.py").write_text(
        "import os, pathlib, time\npathlib.Path(f'{os.getpid()}.pid').touch()\ntime.sleep(60)\n"
    )
    child = start(here, "--gpu", gpus, "train.py")
    expected = min(2, gpus.count(",") + 1)
    deadline = time.monotonic() + 30
    while len(list(here.glob("*.pid"))) < expected and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "interrupted" in err
    for file in here.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.stem), 0)
