"""Code as people write it when they learn: each mistake is found at its line, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flatout.check.asking import check_data
from flatout.check.files import kind_of
from flatout.check.jobs import Job
from flatout.check.registry import all_rules

FOLDER = Path(__file__).parent / "learners"
_ROW = re.compile(r"^\| (\S+) \| (\d+) \| (FO\d+) \|", re.MULTILINE)
EXPECTED = [
    (file, int(line), code) for file, line, code in _ROW.findall((FOLDER / "expected.md").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("name", sorted({file for file, _, _ in EXPECTED}))
def test_what_is_found(name: str) -> None:
    codes = tuple(rule.code for rule in all_rules())
    job = Job(
        path=str(FOLDER / name), shown=name, kind=kind_of(name) or "python", is_test=False, torch=None, rules=codes
    )
    result = check_data(job, (FOLDER / name).read_bytes())
    assert result.error is None
    found = sorted((diagnosis.finding.line or 0, diagnosis.finding.code) for diagnosis in result.diagnoses)
    assert found == sorted((line, code) for file, line, code in EXPECTED if file == name)


def test_every_file_is_expected_to_have_something() -> None:
    files = {path.name for path in FOLDER.iterdir() if path.name != "expected.md" and path.is_file()}
    assert files == {file for file, _, _ in EXPECTED}
