"""A check with toy rules, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatout.check import registry


@pytest.fixture
def toy_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of `toy_rules` in place of the real ones, in helper processes too."""
    monkeypatch.setattr(registry, "PACKAGE", "toy_rules")


@pytest.fixture
def project(toy_rules: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty project, which is where the test runs."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder
