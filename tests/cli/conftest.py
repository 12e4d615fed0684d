"""The command line with its children replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import FakeChildren
from toy_project import project, toy_rules

from flatout.virtual import dry_run

__all__ = ["children", "project", "toy_rules"]


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeChildren:
    """The children of the command, in a directory with a script `train.py`."""
    (tmp_path / "train.py").write_text("loss.backward()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi here
    fake = FakeChildren()
    monkeypatch.setattr(dry_run, "supervise", fake)
    return fake
