"""`flatout profile` names the mistakes that cost something on a CPU as well, and is silent about the twins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mistake_pairs import Pair, pairs

FOUND = frozenset({"FO303", "FO304", "FO501", "FO502", "FO503", "FO504", "FO509", "FO514", "FO605"})
"""What there are rules for so far; the other pairs wait for theirs."""

PROFILED = [pair for pair in pairs() if not pair.needs_gpu and pair.processes == 1 and pair.codes <= FOUND]


def profiled(script: Path, folder: Path) -> list[dict[str, Any]]:
    result = folder / "result.json"
    command = [sys.executable, "-m", "flatout", "profile", "--json", str(result), script.name]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))["findings"]
    return found


def test_most_of_the_pairs_that_run_here_are_profiled() -> None:
    assert len(PROFILED) >= 9


@pytest.mark.integration
@pytest.mark.parametrize("pair", PROFILED, ids=lambda pair: pair.name)
def test_the_mistake_is_named_with_its_line(pair: Pair, tmp_path: Path) -> None:
    found = profiled(pair.mistake, tmp_path)
    for code in pair.codes:
        named = [one for one in found if one["code"] == code and one["line"] in pair.marks[code]]
        assert named, found
        assert Path(named[0]["file"]).name == pair.mistake.name
        assert named[0]["severity"] in ("high", "medium")


@pytest.mark.integration
@pytest.mark.parametrize("pair", PROFILED, ids=lambda pair: pair.name)
def test_the_repaired_twin_is_healthy(pair: Pair, tmp_path: Path) -> None:
    found = profiled(pair.repaired, tmp_path)
    assert [one for one in found if one["severity"] in ("high", "medium")] == []
