"""Bad input, through the real command and a virtual GPU: one clear line, the right exit code, no traceback of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from flatout.errors import RecordingError
from flatout.recording import open_recording

ROOT = Path(__file__).resolve().parents[2]
GPU = "import torch\nx = torch.zeros(8, device='cuda')\n"
TRAIN = (
    "import torch\nmodel = torch.nn.Linear(8, 8).cuda()\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    "def step():\n    model(torch.ones(1, 8, device='cuda')).sum().backward()\n    optimizer.step()\n"
)

pytestmark = pytest.mark.integration
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals are POSIX's")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def report(self) -> str:
        """What flatout said, on one line."""
        return " ".join(self.err.rpartition("PyTorch ")[2].split())


def run(
    folder: Path, *arguments: str, python: tuple[str, ...] = (), stdin: str | None = None, name: str = "train.py"
) -> Said:
    command = [sys.executable, *python, "-m", "flatout", "predict", "--gpu", "t4", *arguments]
    ran = subprocess.run(
        [*command, name] if name else command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=200,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    assert "/src/flatout/" not in ran.stderr, ran.stderr
    return Said(ran.returncode, ran.stdout, ran.stderr)


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py"], "nowhere.py: no such script"),
        (["trian.py"], "Did you mean train.py?"),
        (["."], "a folder without __main__.py"),
        (["-m", "nowhere"], "no module 'nowhere'"),
        (["--gpu", "h1000", "train.py"], "h100"),
        (["--steps", "0", "train.py"], "--steps"),
        (["--steps", "abc", "train.py"], "--steps 'abc' is not a whole number"),
        (["-m", "train.py"], "Leave -m out"),
        (["--assume", "loss", "train.py"], "NAME=VALUE"),
        (["--assume", "loss=big", "train.py"], "number"),
        (["--timeout", "soon", "train.py"], "90s, 10m"),
        (["--json", "nowhere/out.json", "train.py"], "no such directory"),
        (["--json", ".", "train.py"], "--json"),
        (["-o", "nowhere/run.flatout", "train.py"], "no directory"),
        (["-o", "train.py", "train.py"], "is not a recording"),
        (["--gpus-file", "nowhere.toml", "train.py"], "nowhere.toml"),
        (["--gpus-file", "train.py", "train.py"], "train.py"),
        (["--unknown", "train.py"], "--unknown"),
        ([], "SCRIPT"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    script(tmp_path, "raise SystemExit('the script must not run')\n")
    said = run(tmp_path, *arguments, name="")
    assert said.code == 2
    assert said.err.startswith("flatout: ")
    assert says in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("content", [b"", b"not a recording", b"SQLite format 3\x00" + bytes(1000)])
def test_a_corrupt_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.flatout"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=re.escape(str(path))):
        open_recording(path)


ENDS = {
    # What the script does, whether it is bad news, and what the report says of it.
    "syntax-error": ("import torch\ndef f(:\n    pass\n", 1, r"fails SyntaxError at \S*train.py:2"),
    "raises-early": (GPU + "raise ValueError('bad config')\n", 1, r"ValueError at \S*train.py:3 .*bad config"),
    "import-error": ("import nosuchpackage\n", 1, r"ModuleNotFoundError at \S*train.py:1 .*nosuchpackage"),
    "exit-3": (GPU + "import os\nos._exit(3)\n", 1, r"exit code 3"),
    "exit-0-hard": (GPU + "import os\nos._exit(0)\n", 1, r"os\._exit"),
    "exit-text": (GPU + "import sys\nsys.exit('no data')\n", 2, r"cannot tell .*before its first step \(exit code 1"),
    "usage": ("import argparse\nargparse.ArgumentParser().error('x')\n", 2, r"cannot tell .*code 2\).*arguments"),
    "exit-after-a-step": (TRAIN + "step()\nraise SystemExit(3)\n", 1, r"fails .*itself after 1 step \(exit code 3"),
    "caught-and-gave-up": (
        "import sys, torch\ntry:\n    torch.empty(1 << 40, device='cuda')\nexcept RuntimeError:\n    sys.exit(1)\n", 1,
        r"fails the script ran out of memory, caught that, and ended itself before its first step \(exit code 1",
    ),
    "no-memory-in-step-2": (
        TRAIN + "step()\nx = torch.empty(1 << 40, device='cuda')\n", 1, r"does not fit .*train.py:8, step 2, forward",
    ),
    "keyboard-interrupt": (
        GPU + "raise KeyboardInterrupt\n", 2, r"cannot tell .*\(KeyboardInterrupt\) Stopped at \S*train.py:3",
    ),
    "excepthook": (
        GPU + "import sys\nsys.excepthook = lambda *a: None\nraise ValueError\n", 1, r"ValueError at \S*train.py:5",
    ),
    "unprintable": (
        GPU + "class E(Exception):\n    def __str__(self): raise KeyError\nraise E\n", 1, r"E at \S*train.py:5",
    ),
    "recursion": (GPU + "def f(n): return f(n + 1)\nf(0)\n", 1, r"RecursionError at \S*train.py:3"),
    "surrogates": (GPU + "raise ValueError('bad \\udcff \\x1b[31m')\n", 1, r"ValueError at \S*train.py:3"),
    "closes-stdout": (GPU + "import sys\nsys.stdout.close()\n", 0, r"T4 fits"),
    "no-streams": (GPU + "import sys\nsys.stdout = sys.stderr = None\nprint('x')\n", 0, r"T4 fits"),
    "binary": (GPU + "import sys\nsys.stdout.buffer.write(bytes(range(256)))\n", 0, r"T4 fits"),
    "daemon-thread": (
        GPU + "import threading, time\ndef work():\n    while True: torch.ones(4, device='cuda')\n"
        "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.2)\n", 0, r"T4 fits",
    ),
    "exit-handlers": (
        GPU + "import atexit\natexit.register(lambda: 1 / 0)\n"
        "atexit.register(lambda: torch.ones(2, device='cuda').sum())\n", 0, r"T4 fits",
    ),
    "clears-environment": (GPU + "import os\nos.environ.clear()\n", 0, r"T4 fits"),
    "swallows-the-stop": (
        TRAIN + "while True:\n    try:\n        step()\n    except BaseException: pass\n", 0, r"T4 fits",
    ),
    "steps-in-a-thread": (
        TRAIN + "import threading\nt = threading.Thread(target=lambda: [step() for _ in range(99)])\n"
        "t.start()\nt.join()\n", 0, r"T4 fits",
    ),
    "no-gpu": ("import torch\nprint(torch.ones(2).sum())\n", 0, r"does not use the GPU"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_an_end(tmp_path: Path, name: str) -> None:
    text, code, says = ENDS[name]
    script(tmp_path, text)
    said = run(tmp_path)
    assert said.code == code, said.err
    assert re.search(says, said.report), said.report
    assert said.err.count("Traceback") <= 1
    assert "in thread" not in said.err


POSIX_ENDS = {
    "abort": ("import os\nos.abort()\n", 1, r"SIGABRT at \S*train.py:4"),
    "segfault": ("import ctypes\nctypes.string_at(0)\n", 1, r"SIGSEGV at \S*train.py:4"),
    "kill": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", 1, r"SIGKILL.*system ran out of memory"),
    "fork": ("import os\nif os.fork() == 0:\n    os._exit(4)\nos.wait()\n", 0, r"T4 fits"),
    "fork-that-exits": ("import os, sys\nif os.fork() == 0:\n    sys.exit(5)\nos.wait()\n", 0, r"T4 fits"),
    "own-folder-deleted": ("import os, shutil\nshutil.rmtree(os.getcwd())\n", 0, r"T4 fits"),
}  # fmt: skip


@posix
@pytest.mark.parametrize("name", POSIX_ENDS)
def test_an_end_of_a_process(tmp_path: Path, name: str) -> None:
    text, code, says = POSIX_ENDS[name]
    folder = tmp_path / "here"
    folder.mkdir()
    script(folder, GPU + text)
    said = run(folder)
    assert said.code == code, said.err
    assert re.search(says, said.report), said.report


@posix
def test_it_never_steps(tmp_path: Path) -> None:
    """However long it takes to load PyTorch: the time is the script's own."""
    script(tmp_path, GPU + "import time\ndef wait():\n    while True:\n        time.sleep(0.1)\nwait()\n")
    said = run(tmp_path, "--timeout", "3s", "--json", "out.json")
    assert said.code == 1
    assert re.search(
        r"cannot tell .*ran out before the first step Stopped at \S*train.py:6, setup.*--timeout", said.report
    )
    error = json.loads((tmp_path / "out.json").read_text("utf-8"))["results"][0]["error"]
    assert (error["type"], error["line"]) == ("timeout", 6)


@posix
def test_it_never_ends_and_hears_nothing(tmp_path: Path) -> None:
    script(tmp_path, GPU + "import time\nwhile True:\n    try: time.sleep(0.1)\n    except BaseException: pass\n")
    said = run(tmp_path, "--timeout", "2s")
    assert said.code == 1
    assert re.search(r"cannot tell .*Stopped at \S*train.py:\d", said.report)


def test_much_output_is_passed_on_whole(tmp_path: Path) -> None:
    script(tmp_path, GPU + "import sys\nfor _ in range(30): sys.stdout.write('x' * 1048575 + chr(10))\n")
    said = run(tmp_path)
    assert (said.code, len(said.out)) == (0, 30 << 20)


def test_it_may_ask_for_input(tmp_path: Path) -> None:
    script(tmp_path, GPU + "print('hello', input())\n")
    assert run(tmp_path, stdin="Ada\n").out == "hello Ada\n"
    said = run(tmp_path)
    assert said.code == 2
    assert re.search(r"cannot tell the script asks for input, .*Stopped at \S*train.py:3", said.report)


@pytest.mark.parametrize("name", ["torch", "random", "flatout", "typing", "msgspec"])
def test_a_file_with_a_name_of_ours_or_pythons_beside_it(tmp_path: Path, name: str) -> None:
    """`flatout` itself is not led astray, and says what a plain run would meet."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')\n")
    script(tmp_path, GPU)
    launcher = tmp_path / "elsewhere"
    launcher.mkdir()
    (launcher / "flatout").write_text("from flatout.cli.main import main\nmain()\n")  # as pip installs it
    ran = subprocess.run(
        [sys.executable, str(launcher / "flatout"), "predict", "--gpu", "t4", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "T4  fits" in ran.stderr
    assert (f"{name}.py beside the script hides" in " ".join(ran.stderr.split())) is (
        name in ("torch", "random", "typing")
    )


def test_a_module_named_random_with_python_m(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong file')\n")
    script(tmp_path, GPU)
    assert run(tmp_path).code == 0


def test_a_path_with_spaces_and_letters_of_the_world(tmp_path: Path) -> None:
    folder = tmp_path / "mes modèles 漢字"
    folder.mkdir()
    script(folder, GPU + "raise ValueError('größer')\n")
    said = run(tmp_path, name="mes modèles 漢字/train.py")
    assert re.search(r"fails ValueError at mes modèles 漢字/train.py:3", said.report), said.report
    assert "größer" in said.report


@pytest.mark.parametrize("flags", [("-O",), ("-W", "error"), ("-X", "dev")], ids=" ".join)
def test_flags_of_python(tmp_path: Path, flags: tuple[str, ...]) -> None:
    script(tmp_path, GPU + "print('done')\n")
    said = run(tmp_path, python=flags)
    assert (said.code, said.out) == (0, "done\n"), said.err
    assert "Warning" not in said.err
