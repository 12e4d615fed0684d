from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from flatout.source.writing import write_atomically


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no mode bits")
@pytest.mark.parametrize("mode", [0o755, 0o600, 0o644])
def test_the_mode_stays(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(sys.platform == "win32", reason="needs a right to make links")
def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"old")
    (tmp_path / "link.py").symlink_to("a.py")
    write_atomically(tmp_path / "link.py", b"new")
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "a.py").read_bytes() == b"new"


def test_what_cannot_be_written_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_bytes(b"old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "a.py", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
    assert (tmp_path / "a.py").read_bytes() == b"old"
