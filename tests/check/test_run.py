"""Whole checks: what bad files give, what is skipped, that processes and caches change nothing."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.check import asking, run, sharing, worker
from flatout.check.batch import steady_interpreter
from flatout.check.result import CheckResult
from flatout.check.run import Request, check_paths, check_text
from flatout.check.settings import Settings, parse_settings
from flatout.errors import UsageError

BAD = {
    "syntax.py": (b"x.item()\ndef f(:\n", "not valid Python 3.*line 2: "),
    "nul.py": (b"x.item()\0", "NUL|null"),
    "latin.py": b"x.item()  # \xe9\n",
    "binary.py": bytes(range(256)) * 40,
    "sum.py": (b"x = item + " + b" + ".join([b"1"] * 10_000), "too deeply"),
    "minus.py": (b"item = " + b"-" * 10_000 + b"1", "too deeply"),
    "chain.py": (b"item" + b".b" * 10_000, "too deeply"),
    "elif.py": (b"if item:\n pass\n" + b"elif a:\n pass\n" * 5_000, "too deeply"),
    "rule.py": (b"explode = y.item()\n", "mistake of flatout's own in FO105 .KeyError: 'explode'.; please report it"),
    "recursion.py": (b"recurse = 1\n", "too deeply"),
    "parentheses.py": (b"item = " + b"(" * 10_000 + b")" * 10_000, "too many nested|too deeply"),
    "old.py": (b"print 'item'\n", "not valid Python"),
}


def _check(*paths: str, cache: bool = False) -> CheckResult:
    return check_paths(Request(paths=paths or (".",), use_cache=cache)).result


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_the_others_are_checked(project: Path, name: str) -> None:
    data, message = BAD[name] if isinstance(BAD[name], tuple) else (BAD[name], ".")
    (project / name).write_bytes(data)  # type: ignore[arg-type]
    (project / "good.py").write_text("x.item()\n")
    result = _check()
    if message == "too deeply" and not result.errors:
        ast.parse(data)  # how deep is too deep is Python's to say, and these rules do not recurse
        name = ""
    assert [file for file, _ in result.errors] == ([name] if name else [])
    assert result.files_checked == 2
    assert "good.py" in {one.finding.file for one in result.diagnoses}
    if not name:
        return
    reason = result.errors[0][1]
    assert "\n" not in reason
    assert not reason.startswith(name)
    assert re.search(str(message), reason)


def test_a_rule_that_fails_does_not_silence_the_others(project: Path) -> None:
    (project / "a.py").write_text("explode = y.item()\n")
    assert [one.finding.code for one in _check().diagnoses] == ["FO101"]


def test_a_file_that_cannot_be_opened_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text("x.item()\n")
    monkeypatch.setattr(
        Path, "read_bytes", lambda self: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    import builtins

    real = builtins.open

    def refuse(file: object, *rest: object, **more: object) -> object:
        if str(file).endswith("a.py"):
            raise PermissionError(13, "Permission denied")
        return real(file, *rest, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(builtins, "open", refuse)
    assert _check().errors == [("a.py", "cannot be read: Permission denied")]


def test_a_deep_file_cannot_end_the_process(project: Path) -> None:
    (project / "deep.py").write_bytes(b"item = " + b" + ".join([b"1"] * 400_000))
    code = (
        "import sys; sys.setrecursionlimit(10**7); sys.path.insert(0, sys.argv[1])\n"
        "from flatout.check import registry; registry.PACKAGE = 'toy_rules'\n"
        "from flatout.check.run import Request, check_paths\n"
        "print(check_paths(Request(paths=('deep.py',))).result.errors)"
    )
    tests = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, tests], capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode == 0, done.stderr
    assert "too deeply" in done.stdout or sys.version_info < (3, 11)


def test_the_interpreter_is_left_as_it_was() -> None:
    before = sys.getrecursionlimit(), gc.get_threshold()
    with steady_interpreter():
        assert gc.get_threshold() != before[1]
    assert (sys.getrecursionlimit(), gc.get_threshold()) == before


def test_a_file_without_any_rule_s_word_is_not_parsed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "plain.py").write_text("this is not Python\n")
    (project / "quiet.py").write_text("quiet this is not Python\n")  # a word of a rule that is not asked
    monkeypatch.setattr(asking, "read_document", None)
    result = _check()
    assert (result.files_checked, result.files) == (2, ())


def test_warnings_of_the_code_itself_are_not_shown(project: Path) -> None:
    (project / "a.py").write_text("x = '\\d' is 3\nx.item()\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = _check()
    assert [one.finding.line for one in result.diagnoses] == [2]
    assert not result.errors


def test_a_test_file_is_asked_only_what_is_meant_for_tests(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "a.py").write_text("risky.item()\n")
    assert [one.finding.code for one in _check().diagnoses] == ["FO105"]


def test_a_finding_tells_its_place(project: Path) -> None:
    (project / "a.py").write_text("a = 1\nb = 2\n\nif a:\n    x = [é, y.item()]\n\nc = 3\n", encoding="utf-8")
    (only,) = _check().diagnoses
    found, shown = only.finding, only.excerpt
    assert (found.line, found.column, found.end_line, found.end_column) == (5, 13, 5, 21)
    assert (found.severity, found.evidence, found.cell) == ("high", {"name": "y"}, None)
    assert found.remedy is not None
    assert found.remedy.safe
    assert (shown.first_line, shown.lines) == (4, ("if a:", "    x = [é, y.item()]", "", "c = 3"))
    assert shown.lines[1][shown.caret_column :][: shown.caret_length] == "y.item()"
    assert only.fix is not None
    assert [(e.location.column, e.end_location.column) for e in only.fix.edits] == [(14, 21)]


def test_of_a_line_without_end_only_a_piece_is_kept(project: Path) -> None:
    (project / "a.py").write_text(f"x = [{'0, ' * 30_000}y.item(), {'0, ' * 9_000}]\n")
    (only,) = _check().diagnoses
    shown = only.excerpt
    assert len(shown.lines[0]) <= 300
    assert shown.lines[0][shown.caret_column :][: shown.caret_length] == "y.item()"
    assert only.finding.column == 90_006


def test_the_same_finding_is_told_once(project: Path) -> None:
    (project / "a.py").write_text("y.item()\n")
    assert len(_check("a.py", str(project / "a.py")).diagnoses) == 1


def test_text_rules_read_project_files_and_pages(project: Path) -> None:
    line = "pip install -f https://download.pytorch.org/whl/cu92\n"
    for name in ("requirements.txt", "Dockerfile", "README.md", "ci.yml", "a.py"):
        (project / name).write_text(f"# one\n{line}")
    result = _check()
    assert [one.finding.file for one in result.diagnoses] == ["Dockerfile", "README.md", "ci.yml", "requirements.txt"]
    assert {(one.finding.line, one.finding.column) for one in result.diagnoses} == {(2, line.index("cu92") + 1)}
    (project / "ci.yml").write_text(f"{line.strip()}  # flatout: ignore[FO805]\n")
    assert "ci.yml" not in {one.finding.file for one in _check().diagnoses}


def test_project_files_are_left_alone_where_no_rule_reads_them(project: Path) -> None:
    (project / "requirements.txt").write_text("numpy\n")
    only = Settings(layers=parse_settings({"select": ["FO1"]}, root="", source="x").layers)
    assert check_paths(Request(overrides=only)).result.files_checked == 0
    assert _check().files_checked == 1


def test_the_settings_of_each_file_s_own_project(project: Path) -> None:
    for name, ignore in (("a", "FO101"), ("b", "FO105")):
        (project / name).mkdir()
        (project / name / "x.py").write_text("risky.item()\n")
        (project / name / "pyproject.toml").write_text(
            f"[tool.flatout.check]\nignore = ['{ignore}']\ntorch = '2.{len(ignore)}'"
        )
    result = _check()
    assert [(one.finding.file[0], one.finding.code) for one in result.diagnoses] == [("a", "FO105"), ("b", "FO101")]
    assert result.torch == (2, 5)


def test_a_version_that_is_not_one_for_all_is_not_told(project: Path) -> None:
    for name in ("a", "b"):
        (project / name).mkdir()
        (project / name / "x.py").write_text("y.item()\n")
    (project / "a" / "requirements.txt").write_text("torch==2.4\n")
    assert _check("a").torch == (2, 4)
    assert _check().torch is None


def test_unfixable_findings_have_no_fix(project: Path) -> None:
    (project / "a.py").write_text("y.item()\n")
    (project / "pyproject.toml").write_text("[tool.flatout.check]\nunfixable = ['FO101']")
    (only,) = _check().diagnoses
    assert only.fix is None
    assert only.finding.remedy is not None
    assert only.finding.remedy.safe


def test_a_wrong_selector_is_told_without_any_file(project: Path) -> None:
    wrong = Settings(layers=Settings().layers)
    assert check_paths(Request(overrides=wrong)).result.files_checked == 0
    from flatout.check.selection import Layer

    with pytest.raises(UsageError, match="no rule"):
        check_paths(Request(overrides=Settings(layers=(Layer(select=("FO9",)),))))


def test_text_from_nowhere(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.flatout.check]\nextend-exclude = ['old']")
    checked = check_text(Request(), b"y.item()\n", "src/a.py")
    assert [one.finding.file for one in checked.result.diagnoses] == ["src/a.py"]
    assert not check_text(Request(), b"y.item()\n", "tests/a.py").result.diagnoses
    assert check_text(Request(force_exclude=True), b"y.item()\n", "old/a.py").result.files_checked == 0


def _many(project: Path) -> None:
    (project / "pkg").mkdir()
    for number in range(60):
        line = "y.item()\n" if number % 7 else "def f(:  # item\n"
        (project / "pkg" / f"m{number:02}.py").write_text(f"{'# filler' * 60}\nx = {number}\n{line}" * 12)


def test_helper_processes_change_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    alone = _check()
    monkeypatch.setattr(sharing, "_process_count", lambda size_bytes: 3)
    assert _check() == alone
    assert len(alone.errors) == 9


def test_a_helper_that_dies_costs_one_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    alone = _check()
    monkeypatch.setattr(sharing, "_process_count", lambda size_bytes: 2)
    real = sharing.Worker.results

    def die_early(one: sharing.Worker) -> object:
        for number, result in enumerate(real(one)):
            if number == 4 and len(one.jobs) == 30:  # the first, not who goes on
                one._process.kill()
                return
            yield result

    monkeypatch.setattr(sharing.Worker, "results", die_early)
    result = _check()
    lost = [file for file, reason in result.errors if "died" in reason]
    assert len(lost) == 1
    kept = [file for file in alone.files if file.file not in lost]
    assert [file for file in result.files if file.file not in lost] == kept


def test_helpers_that_do_not_start_well_cost_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    alone = _check()
    monkeypatch.setattr(sharing, "_process_count", lambda size_bytes: 2)
    monkeypatch.setattr(worker, "_START", "import nothing_of_that_name  # {path} {package}")
    assert _check() == alone


def test_no_process_is_started_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sharing._process_count(50_000) == 1
    monkeypatch.setattr(sharing.os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    assert sharing._process_count(10**9) == sharing.MOST_PROCESSES


def test_where_no_process_may_be_started_one_does_all(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    alone = _check()
    monkeypatch.setattr(sharing, "_process_count", lambda size_bytes: 3)

    def refuse(*_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(sharing, "Worker", refuse)
    assert _check() == alone


@given(st.lists(st.integers(0, 10_000), max_size=60), st.integers(1, 9))
def test_shares_are_even_and_whole(sizes: list[int], count: int) -> None:
    shares = sharing._shares(sizes, count)
    assert sorted(number for share in shares for number in share) == list(range(len(sizes)))
    loads = [sum(sizes[number] for number in share) for share in shares]
    assert max(loads) - min(loads) <= max(sizes, default=0)


def test_results_are_kept_and_used_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    monkeypatch.setattr(run, "BYTES_WORTH_A_CACHE", 0)
    first = _check(cache=True)
    folder = project / ".flatout_cache"
    assert {path.name for path in folder.iterdir()} >= {".gitignore", "CACHEDIR.TAG"}
    with monkeypatch.context() as patch:
        patch.setattr(run, "run_jobs", None)  # so that any work would fail
        assert _check(cache=True) == first
    (project / "pkg" / "m01.py").write_text("a = 1\nz.item()\n")
    again = _check(cache=True)
    assert "`z.item()` waits" in {one.finding.message for one in again.diagnoses}
    assert again == _check(cache=False)


@pytest.mark.parametrize("change", ["settings", "version", "test file"])
def test_what_is_kept_is_not_used_for_another_question(
    project: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(run, "BYTES_WORTH_A_CACHE", 0)
    (project / "a.py").write_text("risky.item()\n")
    assert len(_check(cache=True).diagnoses) == 2
    if change == "settings":
        (project / "pyproject.toml").write_text("[tool.flatout.check]\nignore = ['FO101']")
    elif change == "version":
        (project / "requirements.txt").write_text("torch==2.4")
        assert _check(cache=True).torch == (2, 4)
        return
    else:
        (project / "a.py").rename(project / "test_a.py")
    assert [one.finding.code for one in _check(cache=True).diagnoses] == ["FO105"]


def test_a_damaged_cache_is_as_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _many(project)
    monkeypatch.setattr(run, "BYTES_WORTH_A_CACHE", 0)
    first = _check(cache=True)
    (kept,) = (project / ".flatout_cache").glob("*.msgpack")
    for data in (b"", b"\xff" * 100, kept.read_bytes()[:-10], b"\x90"):
        kept.write_bytes(data)
        assert _check(cache=True) == first


def test_where_nothing_can_be_kept_nothing_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BYTES_WORTH_A_CACHE", 0)
    (project / "a.py").write_text("y.item()\n")
    (project / ".flatout_cache").write_text("a file stands here")
    assert len(_check(cache=True).diagnoses) == 1


def test_little_work_leaves_no_cache(project: Path) -> None:
    (project / "a.py").write_text("y.item()\n")
    _check(cache=True)
    assert not (project / ".flatout_cache").exists()
