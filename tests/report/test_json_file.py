from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from flatout.errors import UsageError
from flatout.report.json_file import json_text, write_json
from flatout.virtual.prediction import Prediction


def test_writes_what_json_reads(predictions: dict[str, Prediction], tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("older")
    write_json(predictions["fits"], file)
    assert file.read_text() == json_text(predictions["fits"])
    assert json.loads(file.read_text())["schema"] == "flatout.prediction/1"
    assert [path.name for path in tmp_path.iterdir() if "out.json" in path.name] == ["out.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mode bits")
def test_a_result_is_as_readable_as_any_file(predictions: dict[str, Prediction], tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_json(predictions["fits"], tmp_path / "out.json")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out.json").stat().st_mode) == 0o644


def test_a_place_that_cannot_be_written_is_named(predictions: dict[str, Prediction], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*missing.*--json"):
        write_json(predictions["fits"], tmp_path / "missing" / "out.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_json(predictions["fits"], tmp_path / "folder")
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
