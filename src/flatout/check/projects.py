"""Which project a folder belongs to: its settings, the PyTorch that it asks for, where it begins.

    Projects(overrides, isolated=False).of("/abs/folder") -> Project

Settings are those of the nearest pyproject.toml with a [tool.flatout.check]; the version is what the nearest folder
says that says one. Both look no higher than the repository.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from flatout.check.settings import Settings, combine, read_settings
from flatout.check.versions import TorchVersion, asked_in

_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


class Project:
    """What holds for the files of one folder. `root` is absolute: where the project begins, as far as can be told."""

    def __init__(self, settings: Settings, root: str, asked: TorchVersion | None) -> None:
        self.settings = settings
        self.root = root
        self._asked = asked

    @cached_property
    def torch(self) -> TorchVersion | None:
        """The lowest PyTorch that the project admits; None: not known."""
        return self.settings.torch or self._asked


class Projects:
    """The projects of folders, each looked up once. `overrides` are the command line's."""

    def __init__(self, overrides: Settings | None = None, *, isolated: bool = False) -> None:
        self._overrides = overrides or Settings()
        self._isolated = isolated
        self._settings: dict[str, Settings | None] = {}
        self._roots: dict[str, str | None] = {}
        self._asked: dict[str, TorchVersion | None] = {}
        self._projects: dict[tuple[int, str, TorchVersion | None], Project] = {}

    def of(self, folder: str) -> Project:
        """The project of the absolute `folder`. Raises UsageError where its settings are wrong."""
        root = self._root_of(folder) or _home(folder)
        found = None if self._isolated else self._settings_of(folder)
        # Without settings patterns count from the project's root, so that the same files are meant wherever it is run.
        settings = found or Settings(root=root)
        asked = None if self._isolated else self._asked_of(folder)
        key = (id(found), root, asked)
        if key not in self._projects:
            self._projects[key] = Project(combine(settings, self._overrides), root, asked)
        return self._projects[key]

    def _settings_of(self, folder: str) -> Settings | None:
        if folder not in self._settings:
            path = os.path.join(folder, "pyproject.toml")
            found = read_settings(Path(path)) if os.path.isfile(path) else None
            if found is None and not _is_top(folder):
                found = self._settings_of(os.path.dirname(folder))
            self._settings[folder] = found
        return self._settings[folder]

    def _root_of(self, folder: str) -> str | None:
        if folder not in self._roots:
            if any(os.path.exists(os.path.join(folder, marker)) for marker in _MARKERS):
                self._roots[folder] = folder
            else:
                self._roots[folder] = None if _is_top(folder) else self._root_of(os.path.dirname(folder))
        return self._roots[folder]

    def _asked_of(self, folder: str) -> TorchVersion | None:
        if folder not in self._asked:
            found = asked_in(Path(folder))
            if found is None and not _is_top(folder):
                found = self._asked_of(os.path.dirname(folder))
            self._asked[folder] = found
        return self._asked[folder]


def _home(folder: str) -> str:
    """Where a folder that belongs to no project is looked at from."""
    here = os.getcwd()
    return here if os.path.join(folder, "").startswith(os.path.join(here, "")) else folder


def _is_top(folder: str) -> bool:
    """Whether nothing above `folder` concerns it: a repository, a home, the root of the disk."""
    return (
        os.path.dirname(folder) == folder
        or os.path.exists(os.path.join(folder, ".git"))
        or folder == os.path.expanduser("~")
    )
