from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flatout.check.files import Found, find_files, is_test_file, kind_of
from flatout.check.projects import Projects


def _make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def _find(*paths: str, with_text: bool = True, force_exclude: bool = False) -> Found:
    return find_files(paths, Projects(), with_text=with_text, force_exclude=force_exclude)


def _names(found: Found) -> list[str]:
    return [file.shown.replace(os.sep, "/") for file in found.files]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.py", "python"),
        ("A.PY", "python"),
        ("a.pyi", None),
        ("a.pyc", None),
        ("a.ipynb", "notebook"),
        ("README.md", "markdown"),
        ("requirements.txt", "text"),
        ("requirements-dev.txt", "text"),
        ("gpu_requirements.in", "text"),
        ("notes.txt", None),
        ("pyproject.toml", "text"),
        ("other.toml", None),
        ("Dockerfile", "text"),
        ("Dockerfile.gpu", "text"),
        ("train.Dockerfile", "text"),
        ("environment.yml", "text"),
        ("install.sh", "text"),
        ("Makefile", None),
        (".py", None),
    ],
)
def test_kinds(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_what_lies_below_a_folder(project: Path) -> None:
    _make(project, "b.py", "a/c.py", "a/d.ipynb", "README.md", "requirements.txt", "a/data.csv", "a/x.pyi")
    _make(project, ".git/e.py", ".hidden/f.py", ".venv/g.py", "node_modules/h.py", "build/i.py", "dist/j.py")
    _make(project, "a/site-packages/k.py", "a/__pycache__/l.py", "mine/pyvenv.cfg", "mine/lib/m.py")
    assert _names(_find(".")) == ["README.md", "a/c.py", "a/d.ipynb", "b.py", "requirements.txt"]
    assert _names(_find("a", with_text=False)) == ["a/c.py", "a/d.ipynb"]


def test_what_is_named_is_checked(project: Path) -> None:
    _make(project, "build/i.py", "script", ".hidden/f.py", "x.pyi")
    assert _names(_find("build/i.py", "script", ".hidden", "x.pyi")) == [
        ".hidden/f.py",
        "build/i.py",
        "script",
        "x.pyi",
    ]
    assert {file.kind for file in _find("script", "x.pyi").files} == {"python"}
    assert _names(_find("build/i.py", "build", "script", force_exclude=True)) == ["script"]


def test_each_file_once_and_in_order(project: Path) -> None:
    _make(project, "a/b.py", "a/c.py")
    assert _names(_find("a/c.py", ".", "a", "./a/b.py", str(project / "a" / "b.py"))) == ["a/b.py", "a/c.py"]


def test_what_is_not_there_is_told(project: Path) -> None:
    _make(project, "a.py")
    found = _find("a.py", "b.py")
    assert _names(found) == ["a.py"]
    assert [path for path, _ in found.missing] == ["b.py"]


def test_outside_of_here_paths_are_whole(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(project, "a/b.py", "c.py")
    monkeypatch.chdir(project / "a")
    assert [file.shown for file in _find("..").files] == ["b.py", str(project / "c.py")] or [
        file.shown for file in _find("..").files
    ] == [str(project / "c.py"), "b.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a right to make links")
def test_links(project: Path) -> None:
    _make(project, "a/b.py", "c.py")
    (project / "a" / "loop").symlink_to(project, target_is_directory=True)
    (project / "a" / "dead.py").symlink_to(project / "nowhere.py")
    (project / "a" / "linked.py").symlink_to(project / "c.py")
    assert _names(_find(".")) == ["a/b.py", "a/linked.py", "c.py"]


def test_settings_say_what_is_excluded(project: Path) -> None:
    _make(project, "old/a.py", "src/gen/b.py", "src/c.py", "build/d.py", "lib/old/e.py")
    (project / "pyproject.toml").write_text("[tool.flatout.check]\nextend-exclude = ['old', 'src/gen', '**/c.py']")
    assert _names(_find(".", with_text=False)) == []
    (project / "pyproject.toml").write_text("[tool.flatout.check]\nexclude = ['src/*']")
    assert _names(_find(".", with_text=False)) == ["build/d.py", "lib/old/e.py", "old/a.py"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("test_a.py", True),
        ("a_test.py", True),
        ("conftest.py", True),
        ("tests/a.py", True),
        ("pkg/test/data/a.py", True),
        ("tests.py", True),
        ("testing/a.py", False),
        ("contest.py", False),
        ("train.py", False),
    ],
)
def test_tests_are_known_by_their_place(path: str, expected: bool) -> None:
    root = os.path.abspath(os.path.join(os.sep, "home", "tests", "test_me"))
    assert is_test_file(os.path.join(root, *path.split("/")), root) is expected
