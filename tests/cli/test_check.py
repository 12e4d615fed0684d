from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import toy_project

from flatout.cli import main

SOURCE = "for x in y:\n    total += x.item()\nrisky\n"
FIXED = "for x in y:\n    total += x\nrisky\n"


@pytest.fixture
def train(project: Path) -> Path:
    path = project / "train.py"
    path.write_text(SOURCE)
    return path


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def _run(line: str) -> int:
    return main.run(["check", *line.split()])


def test_findings(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("") == 1
    out, err = capsys.readouterr()
    assert "2 |     total += x.item()\n  |              ^^^^^^^^\n" in out
    assert out.endswith("2 GPU mistakes found in 1 file\n[*] 1 can be fixed with --fix (1 more with --unsafe-fixes)\n")
    assert err == ""


def test_nothing_wrong_is_said_and_that_is_all(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").write_text("a = 1\n")
    assert _run("a.py") == 0
    assert capsys.readouterr() == ("no GPU mistakes found in 1 file\n", "")


def test_nothing_to_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(".") == 0
    assert capsys.readouterr().out.startswith("nothing to check")


def test_what_cannot_be_read_is_a_line_and_exit_2(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (train.parent / "bad.py").write_text("item = (\n")
    assert _run("--output-format concise --exit-zero . nowhere.py") == 2
    out, err = capsys.readouterr()
    assert out.startswith("train.py:2:14: FO101 [*] ")
    assert [line.split(":")[0] for line in err.splitlines()] == ["bad.py", "nowhere.py"]
    assert _run("bad.py") == 2
    assert "no GPU mistakes" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 1),
        ("--exit-zero", 0),
        ("--fail-on high", 1),
        ("--ignore FO101 --fail-on medium", 0),
        ("--ignore FO101 --fail-on low", 1),
        ("--ignore FO101,toy-names", 0),
        ("--ignore FO101 --ignore FO105", 0),
        ("--select FO2", 0),
        ("--select FO2 --extend-select FO1", 1),
        ("--exclude train.py", 0),
        ("--config ignore=['FO1']", 0),
        ("--isolated", 1),
        ("--no-cache", 1),
        ("--force-exclude", 1),
    ],
)
def test_exit_codes(train: Path, options: str, code: int) -> None:
    assert _run(f"{options} .") == code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--select FO9", "--select|command line: 'FO9' is no rule"),
        ("--output-format xml", "--output-format 'xml' is none; give one of full, concise, json"),
        ("--fail-on never", "--fail-on 'never' is no level; give one of high, medium"),
        ("--torch new", "--torch: 'new' is not a version of PyTorch"),
        ("--config ignore", "--config 'ignore' is not of the form KEY=VALUE"),
        ("--config x=1", "--config: .* has no key 'x'"),
        ("--config ignore=[", "--config: not valid TOML"),
        ("--diff --fix", "--diff and --fix do not go together"),
        ("- train.py", "standard input. stands alone"),
        ("--nonsense", "there is no option --nonsense .see flatout check --help"),
        ("--ignor FO1", "there is no option --ignor; did you mean --ignore"),
        ("--ignore", "expected one argument"),
        ("--json .", "cannot write"),
        ("-o missing/a.txt", "cannot write missing/a.txt"),
    ],
)
def test_wrong_usage_is_one_line(train: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(options) == 2
    err = capsys.readouterr().err
    assert err.startswith("flatout: ")
    assert err.count("\n") == 1
    assert re.search(message, err)


def test_a_wrong_pyproject_is_one_line(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (train.parent / "pyproject.toml").write_text("[tool.flatout.check]\nignored = []")
    assert _run("") == 2
    assert "pyproject.toml: [tool.flatout.check] has no key 'ignored'" in capsys.readouterr().err
    assert _run("--isolated") == 1


def test_fix(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--fix --show-fixes") == 1
    out = capsys.readouterr().out
    assert train.read_text() == FIXED
    assert "fixed train.py:2:14: FO101 toy-item\n2 GPU mistakes found in 1 file: 1 fixed, 1 left\n" in out
    before = train.stat()
    assert _run("--fix --unsafe-fixes") == 0
    assert capsys.readouterr().out == "1 GPU mistake found in 1 file, all fixed\n"
    assert train.read_text() == FIXED.replace("risky", "calm")
    assert before.st_mode == train.stat().st_mode


def test_fix_twice_does_not_touch_the_file(train: Path) -> None:
    _run("--fix")
    before = train.stat().st_mtime_ns, train.stat().st_ino
    _run("--fix")
    assert (train.stat().st_mtime_ns, train.stat().st_ino) == before


def test_fix_only(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--fix-only") == 0
    assert capsys.readouterr().out == "1 GPU mistake fixed in 1 file\n"
    assert train.read_text() == FIXED


def test_a_fix_that_breaks_the_file_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").write_text("broken\n")
    assert _run("--fix") == 1
    assert capsys.readouterr().err.startswith("flatout: a.py:1: the fix of FO105 was not made")
    assert (project / "a.py").read_text() == "broken\n"


def test_a_file_that_may_not_be_written_is_told(
    train: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("flatout.cli.checking.write_atomically", refuse)
    assert _run("--fix") == 2
    out, err = capsys.readouterr()
    assert "train.py: cannot be written: Permission denied" in err
    assert "2 GPU mistakes found in 1 file\n" in out
    assert train.read_text() == SOURCE


def test_diff(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--diff") == 1
    out, err = capsys.readouterr()
    assert out.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "-    total += x.item()\n+    total += x\n" in out
    assert err == "1 GPU mistake would be fixed\n"
    assert train.read_text() == SOURCE
    assert _run("--diff --ignore FO101") == 0
    assert capsys.readouterr() == ("", "nothing to fix\n")


def test_standard_input(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _stdin(monkeypatch, SOURCE.encode())
    assert _run("- --output-format concise") == 1
    assert capsys.readouterr().out.startswith("-:2:14: FO101")
    _stdin(monkeypatch, SOURCE.encode())
    assert _run("- --output-format concise --stdin-filename src/a.py") == 1
    assert capsys.readouterr().out.startswith("src/a.py:2:14: FO101")


def test_standard_input_fixed_goes_to_standard_output(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stdin(monkeypatch, SOURCE.replace("\n", "\r\n").encode())
    assert _run("- --fix") == 1
    out, err = capsys.readouterr()
    assert out == FIXED.replace("\n", "\r\n")
    assert "1 fixed, 1 left" in err
    _stdin(monkeypatch, b"a = 1\n")
    assert _run("- --fix") == 0
    assert capsys.readouterr().out == "a = 1\n"


def test_json(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--json - --torch 2.6") == 1
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["schema"], report["torch"], report["files_checked"]) == ("flatout.check/1", "2.6", 1)
    assert [found["line"] for found in report["findings"]] == [2, 3]
    assert "2 GPU mistakes found" in err
    assert _run("--json out.json --output-format concise") == 1
    assert json.loads(Path("out.json").read_text())["files_checked"] == 1
    assert capsys.readouterr().out.startswith("train.py:2:14")


def test_output_formats_and_file(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--output-format json") == 1
    assert len(json.loads(capsys.readouterr().out)) == 2
    assert _run("--output-format sarif -o out.sarif") == 1
    assert capsys.readouterr().out == ""
    assert json.loads(Path("out.sarif").read_text())["version"] == "2.1.0"


def test_statistics(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--statistics") == 1
    assert capsys.readouterr().out.startswith("1  FO101  [*]  toy-item\n1  FO105  [ ]  toy-names\n2 GPU mistakes")


@pytest.mark.integration
def test_an_output_without_the_letters_gets_escapes(project: Path) -> None:
    (project / "a.py").write_text("x['漢'].item()\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    code = (
        "from flatout.check import registry; registry.PACKAGE = 'toy_rules'\n"
        f"import sys; sys.path.insert(0, {str(Path(toy_project.__file__).parent)!r})\n"
        "from flatout.cli.main import run; sys.exit(run(['check']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, cwd=project, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"x['\u6f22'].item()" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_reader_that_has_had_enough_is_no_error(project: Path) -> None:
    (project / "a.py").write_text("import torch\n" * 3)
    command = [sys.executable, "-m", "flatout", "check", "--output-format", "sarif"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=project, check=False)
    os.close(writing)
    assert done.stderr == b""


def test_nothing_heavy_is_loaded(train: Path) -> None:
    code = (
        "import sys\nfrom flatout.cli.main import run\nrun(['check', 'train.py', '--no-cache'])\n"
        "heavy = {'torch', 'numpy', 'rich', 'multiprocessing', 'concurrent', 'asyncio', 'http', 'xml'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules if name != 'rich._extension'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=train.parent, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--help") == 0
    assert "Usage: flatout check" in capsys.readouterr().out
