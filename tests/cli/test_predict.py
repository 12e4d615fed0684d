from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from children import GIB, FakeChildren

from flatout.cli.main import run
from flatout.gpu import all_gpus, find
from flatout.recording import open_recording
from flatout.recording.schema import Ending, Failure, Place


@pytest.mark.parametrize(
    ("line", "script", "arguments", "steps"),
    [
        ("train.py", "train.py", [], 3),
        ("--gpu h100 train.py --gpu 0 --steps 5", "train.py", ["--gpu", "0", "--steps", "5"], 3),
        ("--steps 7 --gpu=h100 train.py", "train.py", [], 7),
        ("train.py --help", "train.py", ["--help"], 3),
        ("train.py -h --version -v -m x", "train.py", ["-h", "--version", "-v", "-m", "x"], 3),
        ("train.py -- --x", "train.py", ["--", "--x"], 3),
        ("-- train.py --x", "train.py", ["--x"], 3),
        ("--gpu h100 -- train.py -- y", "train.py", ["--", "y"], 3),
        ("train.py '' 'two words' *.pt", "train.py", ["", "two words", "*.pt"], 3),
        ("train.py --gpus 2 --strategy ddp", "train.py", ["--gpus", "2", "--strategy", "ddp"], 3),
    ],
)
def test_what_follows_the_script_is_the_scripts(
    children: FakeChildren, line: str, script: str, arguments: list[str], steps: int
) -> None:
    assert run(["predict", *shlex.split(line)]) == 0
    (call,) = children.calls
    assert (call.target.path, call.target.module) == (script, None)
    assert list(call.target.arguments) == arguments
    assert call.options["steps"] == steps


def test_a_module_stands_in_for_a_script(children: FakeChildren) -> None:
    assert run(["predict", "--gpu", "h100", "-m", "pkg.train", "-m", "--steps", "9"]) == 0
    (call,) = children.calls
    assert (call.target.path, call.target.module) == (None, "pkg.train")
    assert list(call.target.arguments) == ["-m", "--steps", "9"]
    assert call.options["steps"] == 3


def test_options_reach_the_child(children: FakeChildren) -> None:
    options = ["--timeout", "1h", "--assume", "loss=2.5", "--assume", "done=true", "--allow-writes"]
    assert run(["predict", *options, "--gpu", "t4", "train.py"]) == 0
    (call,) = children.calls
    assert call.timeout_seconds == 3600
    assert call.options["assume"] == {"loss": 2.5, "done": True}
    assert call.options["allow_writes"] is True
    assert call.options["gpu"] == find("t4").label
    assert (call.stdout_to_stderr, call.quiet) == (False, False)


def test_fits(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--gpu", "h100", "train.py", "--lr", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "train.py --lr 1" in err
    assert "fits" in err
    assert "loss.backward()" in err
    assert "No --gpu" not in err


def test_without_a_gpu_the_default_is_said(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "train.py"]) == 0
    label = find("a100").label
    assert f"No --gpu was given: this is for {label}" in " ".join(capsys.readouterr().err.split())


def test_may_not_use_the_gpu(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    children.reserved_bytes = 0
    assert run(["predict", "--gpu", "h100", "train.py"]) == 0
    assert "does not use the GPU" in capsys.readouterr().err


def test_out_of_memory_runs_a_second_time_to_know_the_need(
    children: FakeChildren, capsys: pytest.CaptureFixture[str]
) -> None:
    children.reserved_bytes = 100 * GIB
    assert run(["predict", "--gpu", "h100", "train.py"]) == 1
    first, second = children.calls
    assert (first.options["unlimited"], second.options["unlimited"]) == (False, True)
    assert (first.quiet, second.quiet) == (False, True)
    assert first.options["recording"] != second.options["recording"]
    err = capsys.readouterr().err
    assert "does not fit" in err
    assert "more than it has" in err


def test_an_error_names_its_line(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    children.ending = Ending("error", 1, Failure("RuntimeError", "CUDA's own words", Place("train.py", 1)))
    assert run(["predict", "--gpu", "h100", "train.py"]) == 1
    err = capsys.readouterr().err
    assert "fails  RuntimeError at train.py:1" in err
    assert "loss.backward()" in err
    assert "CUDA's own words" in err
    assert len(children.calls) == 1


def test_ctrl_c_has_its_own_exit_code(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    children.ending = Ending("interrupted", 130)
    assert run(["predict", "--gpu", "h100", "train.py"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_options_behind_the_script_get_a_hint(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    children.ending, children.steps = Ending("error", 2, Failure("SystemExit", "2")), 0
    assert run(["predict", "train.py", "--steps=9"]) == 2
    assert "--steps=9 stands behind the script" in capsys.readouterr().err


def test_a_script_that_ends_itself_before_its_first_step_is_wrong_usage(
    children: FakeChildren, capsys: pytest.CaptureFixture[str]
) -> None:
    children.ending, children.steps = Ending("error", 3, Failure("SystemExit", "no data")), 0
    assert run(["predict", "--gpu", "h100,t4", "train.py"]) == 2
    assert "cannot tell  the script ended itself before its first step (exit code 3)" in capsys.readouterr().err
    children.steps = 1
    assert run(["predict", "--gpu", "h100", "train.py"]) == 1
    assert "fails  the script ended itself after 1 step (exit code 3)" in capsys.readouterr().err


def test_a_script_that_ends_itself_on_one_gpu_only_is_bad_news(children: FakeChildren) -> None:
    """It asked the GPU, and did not like it."""
    children.steps = 0
    children.ending_on = lambda gpu: Ending("error", 1, Failure("SystemExit", "too old")) if "T4" in gpu else None
    assert run(["predict", "--gpu", "h100,t4", "train.py"]) == 1
    assert run(["predict", "--gpu", "t4", "train.py"]) == 2
    assert run(["predict", "--gpu", "h100", "train.py"]) == 0


def test_several_gpus(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    children.reserved_bytes = 30 * GIB
    children.usable_bytes = lambda label: find(label).usable_bytes
    assert run(["predict", "--gpu", "h100,t4,H100", "--json", "-", "train.py"]) == 1
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert [result["outcome"] for result in data["results"]] == ["fits", "out_of_memory"]
    assert [result["gpu"] for result in data["results"]] == [find("h100").name, find("t4").name]
    assert all(call.stdout_to_stderr for call in children.calls)
    quiet = {call.options["gpu"]: call.quiet for call in children.calls if not call.options["unlimited"]}
    assert quiet == {find("h100").label: False, find("t4").label: True}
    assert "does not fit" in err


def ran_on(children: FakeChildren) -> list[str]:
    return [call.options["gpu"] for call in children.calls]


def test_every_gpu_from_one_run(children: FakeChildren, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--gpu", "all", "--json", "-", "train.py"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert ran_on(children) == ["GB200 186 GB"]
    assert [result["label"] for result in results] == [gpu.label for gpu in all_gpus()]
    assert {result["judged_from"] for result in results} == {None, "GB200 186 GB"}
    assert all("alike" not in result["facts"] for result in results)


def test_a_run_for_each_path(children: FakeChildren) -> None:
    children.alike = lambda gpu, other: ("RTX" in gpu) == ("RTX" in other)
    assert run(["predict", "--gpu", "all", "train.py"]) == 0
    assert ran_on(children) == ["GB200 186 GB", "RTX PRO 6000 Blackwell"]
    assert [call.quiet for call in children.calls] == [False, True]


def test_gpus_that_may_just_be_enough_run_themselves(
    children: FakeChildren, capsys: pytest.CaptureFixture[str]
) -> None:
    """It keeps 42 GiB, half of which it gives back when there is no more: less than half is too little for certain."""
    children.reserved_bytes = 42 * GIB
    assert run(["predict", "--gpu", "all", "--json", "-", "train.py"]) == 1
    between = {gpu.label for gpu in all_gpus() if 20 * GIB < gpu.usable_bytes < 43 * GIB}
    assert {"A100 SXM 40 GB", "RTX 4090"} < between
    assert set(ran_on(children)[1:]) == between
    outcomes = {one["label"]: one["outcome"] for one in json.loads(capsys.readouterr().out)["results"]}
    assert (outcomes["T4"], outcomes["A100 SXM 80 GB"], outcomes["L40"]) == ("out_of_memory", "fits", "fits")


@pytest.mark.parametrize("kind", ["SystemExit", "RuntimeError"])
def test_a_script_that_fails_everywhere_runs_once(children: FakeChildren, kind: str) -> None:
    children.steps = 0
    children.ending = Ending("error", 1, Failure(kind, "no data"))
    assert run(["predict", "--gpu", "all", "train.py"]) == (2 if kind == "SystemExit" else 1)
    assert len(children.calls) == 1


def test_verbose_lets_all_of_them_speak(children: FakeChildren) -> None:
    assert run(["predict", "-v", "--gpu", "h100,a100", "train.py"]) == 0
    assert [call.quiet for call in children.calls] == [False, False]


def test_json_file(children: FakeChildren, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--gpu", "h100", "--json", "out.json", "train.py"]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == "flatout.prediction/1"
    assert capsys.readouterr().out == ""


def test_recording_is_kept_where_asked(children: FakeChildren, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(["predict", "--gpu", "h100", "-o", "run.flatout", "train.py"]) == 0
    with open_recording(tmp_path / "run.flatout") as recording:
        assert recording.run.script == "train.py"
    assert run(["predict", "--gpu", "h100,a100", "-o", "run.flatout", "train.py"]) == 0
    assert len(list(tmp_path.glob("run-*.flatout"))) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("predict", ["Missing argument", "flatout predict --help"]),
        ("predict --gpu h1000 train.py", ["h1000", "H100"]),
        ("predict --gpu , train.py", ["--gpu", "empty name"]),
        ("predict --gpu '' train.py", ["--gpu", "empty name"]),
        *((f"predict --steps {text} train.py", ["--steps", text, "whole number"]) for text in ("0", "many", "1.5")),
        ("predict --steps train.py", ["SCRIPT", "flatout predict --help"]),
        ("predict -o", ["-o", "flatout predict --help"]),
        ("predict --verbose=1 train.py", ["--verbose", "flatout predict --help"]),
        ("predict --strateg x train.py", ["--strateg;", "flatout predict --help"]),
        ("predict --jsn x train.py", ["did you mean --json?"]),
        ("predict --json '' train.py", ["--json ''"]),
        ("gpus --gpu-file x", ["did you mean --gpus-file?", "flatout gpus --help"]),
        ("gpus --gpus-file", ["--gpus-file", "flatout gpus --help"]),
        ("gpus x", ["x", "flatout gpus --help"]),
        ("predict --timeout soon train.py", ["--timeout", "soon"]),
        ("predict --assume x train.py", ["--assume", "NAME=VALUE"]),
        ("predict --gpus 2 train.py", ["--gpus", "not there yet"]),
        ("predict --strategy ddp train.py", ["--strategy", "not there yet"]),
        ("predict --nonsense train.py", ["--nonsense", "flatout predict --help"]),
        ("predict --gpus-file missing.toml train.py", ["missing.toml"]),
        ("predict -o train.py train.py", ["train.py", "not a recording"]),
        ("predict -o missing/x.flatout train.py", ["missing", "no directory"]),
        ("predict --json missing/x.json train.py", ["missing", "--json"]),
        ("nonsense", ["nonsense", "flatout --help"]),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    children: FakeChildren, capsys: pytest.CaptureFixture[str], line: str, words: list[str]
) -> None:
    assert run(shlex.split(line)) == 2
    err = capsys.readouterr().err.strip().splitlines()
    assert err[-1].startswith("flatout: ")
    assert all(word in err[-1] for word in words), err
    assert len(err) == 1
    assert "--strategy?" not in err[-1]
    assert children.calls == []


def test_the_script_is_untouched_by_a_wrong_output(children: FakeChildren, tmp_path: Path) -> None:
    run(["predict", "-o", "train.py", "train.py"])
    assert (tmp_path / "train.py").read_text() == "loss.backward()\n"
