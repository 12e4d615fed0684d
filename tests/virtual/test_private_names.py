"""The names of PyTorch's that may go away."""

from __future__ import annotations

import pytest

from flatout.errors import UnsupportedError
from flatout.virtual import private_names


def test_the_installed_pytorch_has_them_all() -> None:
    assert private_names.missing(private_names.NAMES) == []


def test_missing_names_are_named_with_what_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(private_names.NAMES, "torch._C._not_there", "nothing")
    with pytest.raises(UnsupportedError, match=r"torch\._C\._not_there \(nothing\)"):
        private_names.check()
