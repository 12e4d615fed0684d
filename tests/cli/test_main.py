from __future__ import annotations

import subprocess
import sys

import pytest

from flatout import __version__
from flatout.cli import main
from flatout.errors import UnsupportedError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"flatout {__version__}\n"


@pytest.mark.parametrize("line", ["--help", "-h", "predict --help", "predict -h", "gpus --help"])
def test_help(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(line.split()) == 0
    out = capsys.readouterr().out
    assert "Usage: flatout" in out


def test_nothing_asked_for_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 2
    out, err = capsys.readouterr()
    assert "Usage: flatout" in out + err
    assert "flatout:" not in err


def test_help_of_predict_says_that_the_script_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["predict", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "no sandbox" in out
    assert "--strategy" not in out


def test_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["gpus"]) == 0
    out = capsys.readouterr().out
    assert "H100" in out
    assert "GiB" in out


def test_errors_carry_their_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedError("this is refused")

    monkeypatch.setattr("flatout.cli.predict.values.duration_seconds", refuse)
    assert main.run(["predict", "train.py"]) == 1
    assert capsys.readouterr().err == "flatout: this is refused\n"


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flatout.cli.predict.values.duration_seconds", interrupt)
    assert main.run(["predict", "train.py"]) == 130
    assert capsys.readouterr().err.strip().endswith("flatout: interrupted")


def test_our_own_mistakes_have_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("flatout.cli.predict.values.duration_seconds", break_down)
    assert main.run(["predict", "train.py"]) == 2
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in err
    assert "Traceback" not in err
    monkeypatch.setenv("FLATOUT_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main.run(["predict", "train.py"])


def test_help_loads_no_torch() -> None:
    code = (
        "import sys\nfrom flatout.cli.main import run\n"
        "for line in (['--help'], ['--version'], ['predict', '--help'], ['gpus']):\n    run(line)\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["False", "False"]
