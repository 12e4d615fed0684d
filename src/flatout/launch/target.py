"""What to run: a script or a module, with its arguments."""

from __future__ import annotations

import difflib
import importlib.machinery
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from flatout.errors import ScriptError


@dataclass(frozen=True)
class Target:
    """A script by its `path`, or a `module` as after ``python -m``; exactly one of the two."""

    path: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.path is None) == (self.module is None):
            raise ValueError(f"Passed `{self!r}`. Give either a path or a module.")

    @property
    def name(self) -> str:
        """The target as the user names it: ``train.py`` or ``-m train``."""
        return self.path if self.path is not None else f"-m {self.module}"

    def command(self) -> list[str]:
        """What follows ``python`` on its command line."""
        if self.module is not None:
            return ["-m", self.module, *self.arguments]
        assert self.path is not None
        dashes = ["--"] if self.path.startswith("-") else []
        return [*dashes, self.path, *self.arguments]

    def check(self) -> None:
        """Raise `ScriptError` where Python could not even begin: nothing there, a folder, no permission.

        What only Python can tell (a syntax error, a submodule that is missing) is left to Python and its own message.
        """
        if self.path is not None:
            _check_path(Path(self.path))
        elif str(self.module).endswith(".py") and Path(str(self.module)).exists():
            raise ScriptError(
                f"-m {self.module}: a file, and -m takes a module. Leave -m out, or give -m {str(self.module)[:-3]}"
            )
        elif not _can_be_found(str(self.module)):
            raise ScriptError(
                f"-m {self.module}: no module {str(self.module).partition('.')[0]!r} here. Give the name without .py, "
                "from the folder that holds it, in the environment where it is installed."
            )


def _check_path(path: Path) -> None:
    if str(path) == "-":
        raise ScriptError("-: a script on standard input cannot be run. Save it to a file.")
    if not path.exists():
        near = difflib.get_close_matches(path.name, _scripts_in(path.parent), n=1)
        hint = f"Did you mean {path.with_name(near[0])}?" if near else f"Looked from {Path.cwd()}."
        raise ScriptError(f"{path}: no such script. {hint}")
    if path.is_dir() and not (path / "__main__.py").exists():
        raise ScriptError(f"{path}: a folder without __main__.py. Give the script in it.")
    if not os.access(path, os.R_OK):
        raise ScriptError(f"{path}: no permission to read it. Try: chmod u+r {path}")
    if path.suffix == ".ipynb":
        raise ScriptError(f"{path}: a notebook, not a script. Convert it: jupyter nbconvert --to script {path}")


def _scripts_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if entry.suffix == ".py"]
    except OSError:
        return []


def _can_be_found(module: str) -> bool:
    """Whether the top-level name exists, without running any of it."""
    top = module.partition(".")[0]
    if not top:
        return False
    if importlib.machinery.PathFinder.find_spec(top, [os.getcwd()]) is not None:
        return True
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False
