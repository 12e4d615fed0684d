"""Any sequence of file operations has the same outcome through the store as on a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flatout.virtual.files import FileOptions, install, taint

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f", "l", "l/a")
Step = tuple[str, str, str]


def prepare(root: Path) -> None:
    (root / "d/e").mkdir(parents=True)
    (root / "a").write_text("A")
    (root / "d/a").write_text("DA")
    (root / "d/e/f").write_text("DEF")
    os.symlink("d", root / "l")


def act(step: Step) -> Any:
    """Do one step in the working directory; what it answers, or the error's number."""
    what, one, two = step
    try:
        if what in ("w", "a", "x", "r+"):
            with open(one, what) as file:
                file.write(two)
        elif what == "read":
            return Path(one).read_text()
        elif what == "listdir":
            return sorted(os.listdir(one))
        elif what == "scandir":
            with os.scandir(one) as entries:
                return sorted((e.name, e.path, e.is_dir(), e.is_file(), e.is_symlink()) for e in entries)
        elif what == "exists":
            return (os.path.exists(one), os.path.lexists(one), os.path.isdir(one), os.path.isfile(one))
        elif what == "size":
            return os.path.getsize(one) if os.path.isfile(one) else None
        elif what == "symlink":
            os.symlink(one, two)
        elif what in ("rename", "replace"):
            getattr(os, what)(one, two)
        elif what == "rmtree":
            shutil.rmtree(one)
        elif what == "makedirs":
            os.makedirs(one, exist_ok=True)
        elif what == "move":
            shutil.move(one, two)
        elif what == "copytree":
            if (os.path.realpath(two) + "/").startswith(os.path.realpath(one) + "/"):
                return "a copy into itself never ends, on a disk either"
            shutil.copytree(one, two, dirs_exist_ok=True)
        else:
            getattr(os, what)(one)
    except shutil.Error:
        return "shutil.Error"
    except OSError as error:
        # By path instead of by descriptor, rmtree gives another number for the same refusal (a link, a file).
        return "refused" if what == "rmtree" else error.errno
    return None


def view() -> list[Any]:
    """The whole tree of the working directory, as a script sees it."""
    found: list[Any] = []
    for root, folders, files in os.walk("."):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = os.path.join(root, name)
            if os.path.islink(path):
                found.append((path, os.readlink(path)))
            else:
                found.append((path, Path(path).read_text() if os.path.isfile(path) else None))
    return found


_names = st.sampled_from(NAMES)
_READS = ["read", "listdir", "scandir", "exists", "size"]
_one = st.sampled_from(["w", "a", "x", "r+", *_READS, "unlink", "rmdir", "mkdir", "rmtree", "makedirs"])
_two = st.sampled_from(["rename", "replace", "symlink", "move", "copytree"])
_steps = st.lists(st.tuples(_one, _names, st.just("text")) | st.tuples(_two, _names, _names), max_size=12)


def follow(steps: list[Step], root: Path) -> list[Any]:
    os.chdir(root)
    outcomes: list[Any] = [act(step) for step in steps]
    return [*outcomes, view()]


@settings(max_examples=60, deadline=None)
@given(steps=_steps, taint_at=st.integers(0, 12))
def test_the_store_behaves_as_a_disk(steps: list[Step], taint_at: int) -> None:
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(os.path.realpath(folder))
        for name in ("disk", "guarded", "witness"):
            (base / name).mkdir()
            prepare(base / name)
        try:
            expected = follow(steps, base / "disk")
            os.chdir(base / "guarded")
            guard = install(FileOptions(temporary=(str(base / "scratch"),), protected=()))
            try:
                outcomes: list[Any] = []
                for index, step in enumerate(steps):
                    if index == taint_at:
                        taint()
                    outcomes.append(act(step))
                outcomes.append(view())
            finally:
                guard.uninstall()
            assert outcomes == expected
            if taint_at == 0:
                os.chdir(base / "witness")
                untouched = view()
                os.chdir(base / "guarded")
                assert view() == untouched
            else:
                os.chdir(base / "guarded")
                kept = dict(view())
                assert kept["./a"] == "A"
                assert kept["./d/e/f"] == "DEF"
        finally:
            os.chdir(home)
