"""Which paths are scratch, and which are somebody's work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flatout.virtual.files.layout import Layout, below, code_caches, standard_layout


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/t/x", True),
        ("/t", True),
        ("/t/project/x", False),
        ("/t/project/scratch/x", True),
        ("/tt/x", False),
        ("/home/x", False),
    ],
)
@pytest.mark.skipif(os.sep != "/", reason="written with POSIX paths")
def test_the_innermost_root_decides(path: str, expected: bool) -> None:
    layout = Layout(temporary=("/t", "/t/project/scratch"), allowed=(), protected=("/", "/t/project", "/t"))
    assert layout.is_temporary(path) is expected


def test_below() -> None:
    assert below("/a/b", "/a")
    assert below("/a", "/a")
    assert below("/a", "/")
    assert not below("/ab", "/a")


def test_caches_of_code_are_allowed_and_caches_of_data_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("HF_", "XDG_", "TORCH")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    layout = standard_layout(temporary=(), protected=())
    cache = os.path.join(os.path.realpath(tmp_path), ".cache")
    assert layout.is_allowed(os.path.join(cache, "huggingface", "hub", "models--x"))
    assert layout.is_allowed(os.path.join(cache, "torch", "hub", "checkpoints"))
    assert not layout.is_allowed(os.path.join(cache, "huggingface", "datasets", "x.arrow"))
    assert not layout.is_allowed(os.path.join(cache, "my_features.npy"))
    assert layout.is_allowed(os.path.join(str(tmp_path), "package", "__pycache__", "x.pyc"))
    assert not layout.is_allowed(os.path.join(str(tmp_path), "my__pycache__notes"))
    assert all(code_caches())
