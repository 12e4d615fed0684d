"""`flatout predict` names the mistakes that only cost something where there is a GPU, and is silent about the twins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mistake_pairs import Pair, pairs

PREDICTED = [pair for pair in pairs() if pair.needs_gpu and "FO204" not in pair.codes]
"""FO204 is a result that is wrong, not slow: a dry run does not see it yet, `check` does."""


def predicted(script: Path, folder: Path) -> list[dict[str, Any]]:
    result = folder / "result.json"
    command = [sys.executable, "-m", "flatout", "predict", "--gpu", "a100", "--json", str(result), script.name]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))["findings"]
    return found


@pytest.mark.integration
@pytest.mark.parametrize("pair", PREDICTED, ids=lambda pair: pair.name)
def test_the_mistake_is_named_with_its_line(pair: Pair, tmp_path: Path) -> None:
    found = predicted(pair.mistake, tmp_path)
    for code in pair.codes:
        named = [one for one in found if one["code"] == code and one["line"] in pair.marks[code]]
        assert named, found
        assert Path(named[0]["file"]).name == pair.mistake.name
        assert named[0]["severity"] == "high"
        saving = named[0]["saving"]
        assert 0 < saving["low"] <= saving["seconds_per_step"] <= saving["high"]


@pytest.mark.integration
@pytest.mark.parametrize("pair", PREDICTED, ids=lambda pair: pair.name)
def test_the_repaired_twin_is_healthy(pair: Pair, tmp_path: Path) -> None:
    found = predicted(pair.repaired, tmp_path)
    assert [one for one in found if one["severity"] in ("high", "medium")] == []
