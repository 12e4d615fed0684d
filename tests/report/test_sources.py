from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.report.sources import place_text, plain, short_path, short_paths, source_line


def test_paths_are_shown_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    here = home / "project"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    assert short_path(str(here / "src" / "train.py")) == str(Path("src") / "train.py")
    assert short_path(str(home / "other.py")) == str(Path("~") / "other.py")
    assert short_path("train.py") == "train.py"
    outside = str(tmp_path / "lib.py")
    assert place_text(outside, 7) == f"{outside}:7"
    assert place_text("train.py", None) == "train.py"


def test_source_line(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import torch\n    \tloss.backward()  # \x1b[31mred\n\n")
    assert source_line(str(file), 2) == "loss.backward()  # red"
    assert source_line(str(file), 3) is None
    assert source_line(str(file), 99) is None
    assert source_line(str(file), None) is None
    assert source_line(str(tmp_path / "missing.py"), 1) is None


@given(st.text())
def test_plain_leaves_nothing_that_drives_a_terminal(text: str) -> None:
    cleaned = plain(text)
    assert not any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 for c in cleaned)


def test_plain_takes_whole_escape_sequences_out() -> None:
    assert plain("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "red link"


def test_paths_within_a_sentence_are_shown_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    here = home / "my project+"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    inside, beside, outside = here / "src" / "a.py", home / "b.py", tmp_path / "c.py"
    longer = f"{here}-old/a.py"
    text = f"made up ({inside}:3, {beside}:4, {outside}:5; 3 times), not {longer}"
    assert short_paths(text) == (
        f"made up ({Path('src') / 'a.py'}:3, {Path('~') / 'b.py'}:4, {outside}:5; 3 times), "
        f"not {Path('~') / 'my project+-old/a.py'}"
    )


def test_a_sentence_cannot_drive_the_terminal() -> None:
    assert short_paths("\x1b[31mred") == "red"
