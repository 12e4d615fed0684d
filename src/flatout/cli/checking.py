"""What `flatout check` does with a result: fixes, output, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from flatout.check.fixing import Fixed, fix_data, is_applicable
from flatout.check.result import CheckResult, Diagnosis, FileResult
from flatout.check.run import Checked, Request, check_paths, check_text
from flatout.check.settings import Settings
from flatout.errors import UsageError
from flatout.findings.finding import SEVERITIES
from flatout.report.check import Options, render
from flatout.report.check.parts import counted, place, statistics, summary
from flatout.source.writing import write_atomically

_FOR_PEOPLE = ("full", "concise")


class Wish(NamedTuple):
    """The command line, read."""

    paths: tuple[str, ...]
    overrides: Settings
    isolated: bool
    force_exclude: bool
    use_cache: bool
    fix: bool
    unsafe: bool
    diff: bool
    fix_only: bool
    show_fixes: bool
    output_format: str
    output_file: str | None
    json: str | None
    statistics: bool
    fail_on: str
    exit_zero: bool
    stdin_filename: str | None


def answer(wish: Wish) -> int:
    """Do what is wished, to the exit code. Raises UsageError."""
    request = Request(wish.paths, wish.overrides, wish.isolated, wish.force_exclude, wish.use_cache)
    stdin = sys.stdin.buffer.read() if wish.paths == ("-",) else None
    checked = check_paths(request) if stdin is None else check_text(request, stdin, wish.stdin_filename or "-")
    if wish.diff:
        return _diff(checked, stdin, wish)
    result = checked.result
    fixed: tuple[Diagnosis, ...] = ()
    out: TextIO = sys.stdout
    if wish.fix:
        result, fixed = _fix(checked, stdin, wish)
        if stdin is not None:
            out = sys.stderr  # standard output is the fixed text
    if wish.json == "-":
        out = sys.stderr
    _report(result, fixed, out, wish)
    return _exit_code(result, wish)


def _exit_code(result: CheckResult, wish: Wish) -> int:
    if result.errors:
        return 2
    worst = SEVERITIES[: SEVERITIES.index(wish.fail_on) + 1]
    if wish.exit_zero or wish.fix_only:
        return 0
    return int(any(diagnosis.finding.severity in worst for diagnosis in result.diagnoses))


def _fix(checked: Checked, stdin: bytes | None, wish: Wish) -> tuple[CheckResult, tuple[Diagnosis, ...]]:
    """Make the fixes; the result of what is left, and the diagnoses that were fixed."""
    files: list[FileResult] = []
    applied: list[Diagnosis] = []
    after = stdin
    for file in checked.result.files:
        done = _fixed(checked, file, stdin, wish.unsafe)
        if done is None:
            files.append(file)
            continue
        result = done.result
        for line in done.dropped:
            print(f"flatout: {line}", file=sys.stderr)
        if done.applied and stdin is None:
            try:
                write_atomically(Path(checked.jobs[file.file].path), done.data)
            except OSError as error:
                files.append(FileResult(file.file, file.diagnoses, f"cannot be written: {error.strerror or error}"))
                continue
        after = done.data
        applied += done.applied
        files.append(result)
    if stdin is not None and after is not None:
        _write_bytes(after)
    told = tuple(file for file in files if file.diagnoses or file.error)
    return CheckResult(checked.result.files_checked, checked.result.torch, told), tuple(applied)


def _fixed(checked: Checked, file: FileResult, stdin: bytes | None, unsafe: bool) -> Fixed | None:
    """The file with its fixes made; None where there is nothing to fix."""
    if not any(is_applicable(diagnosis.fix, unsafe=unsafe) for diagnosis in file.diagnoses):
        return None
    job = checked.jobs[file.file]
    return fix_data(job, Path(job.path).read_bytes() if stdin is None else stdin, unsafe=unsafe)


def _diff(checked: Checked, stdin: bytes | None, wish: Wish) -> int:
    """Show what would be fixed. Exit code 1 where something would."""
    from flatout.check.difference import file_diff

    applied = 0
    for file in checked.result.files:
        done = _fixed(checked, file, stdin, wish.unsafe)
        if done is not None and done.applied:
            job = checked.jobs[file.file]
            before = Path(job.path).read_bytes() if stdin is None else stdin
            _write_bytes(file_diff(job, before, done.data).encode("utf-8", "surrogatepass"))
            applied += len(done.applied)
    _errors(checked.result)
    said = f"{counted(applied, 'GPU mistake')} would be fixed" if applied else "nothing to fix"
    print(said, file=sys.stderr)
    return 2 if checked.result.errors else int(applied > 0 and not wish.exit_zero)


def _report(result: CheckResult, fixed: Sequence[Diagnosis], out: TextIO, wish: Wish) -> None:
    people = wish.output_format in _FOR_PEOPLE
    options = Options(unsafe=wish.unsafe, colour=people and wish.output_file is None and _wants_colour(out))
    told = CheckResult(result.files_checked, result.torch, ()) if wish.fix_only else result
    if wish.statistics:
        text = "".join(f"{line}\n" for line in statistics(told.diagnoses, wish.unsafe))
    else:
        text = render(told, wish.output_format, options)
    if people:
        text += "".join(f"{line}\n" for line in _closing(result, fixed, wish))
    if wish.output_file is not None:
        _write_file(wish.output_file, text, "--output-file")
    elif people:
        _write_text(out, text)
    elif wish.json != "-":
        _write_bytes(text.encode("utf-8", "surrogatepass"), out)
    if wish.json is not None:
        _write_json(result, wish.json)
    _errors(result)


def _closing(result: CheckResult, fixed: Sequence[Diagnosis], wish: Wish) -> list[str]:
    lines = []
    if wish.show_fixes and fixed:
        lines += [f"fixed {place(one.finding)}: {one.finding.code} {one.finding.name}" for one in fixed]
    if wish.fix_only:
        return [*lines, f"{counted(len(fixed), 'GPU mistake')} fixed in {counted(result.files_checked, 'file')}"]
    if result.files_checked == 0 and not result.errors:
        return [*lines, "nothing to check: no Python file, notebook or Markdown page there"]
    if result.errors and not result.diagnoses and not fixed:
        # What could not be read may hold any: "none found" would be said too soon.
        return lines
    return [*lines, *summary(result, unsafe=wish.unsafe, fixed=len(fixed))]


def _errors(result: CheckResult) -> None:
    for file, reason in result.errors:
        print(f"{file}: {reason}", file=sys.stderr)


def _write_json(result: CheckResult, path: str) -> None:
    from flatout.report.check.own import check_report
    from flatout.report.json_file import json_text, write_json

    report = check_report(result)
    if path == "-":
        _write_bytes(json_text(report).encode())
    else:
        write_json(report, Path(path))


def _write_file(path: str, text: str, option: str) -> None:
    try:
        write_atomically(Path(path), text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; give another file to {option}") from error


def _write_bytes(data: bytes, out: TextIO | None = None) -> None:
    """Bytes as they are: the terminal's encoding is not that of a file or of JSON."""
    stream = out or sys.stdout
    stream.flush()
    stream.buffer.write(data)
    stream.flush()


def _write_text(out: TextIO, text: str) -> None:
    """Text for people; letters that the terminal's encoding lacks are written as escapes."""
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _wants_colour(out: TextIO) -> bool:
    if not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    if sys.platform == "win32":
        os.system("")  # the documented side effect of which is that the console understands colours
    return True
