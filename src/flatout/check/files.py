"""The files that paths mean.

    find_files(["src", "train.py"], projects, with_text=False) -> Found(files, missing)

Below a folder: Python, notebooks and Markdown, and (`with_text`) requirements, Dockerfiles, TOML and YAML. A file that
is named is always among them. Links to folders are not followed, so none can lead in circles; virtual environments are
left out by what they are, not by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flatout import source
from flatout.check.projects import Project, Projects
from flatout.source import Kind

_KINDS: dict[str, Kind] = {
    ".py": "python",
    ".pyw": "python",
    ".sh": "text",
    ".yml": "text",
    ".yaml": "text",
}
_TEXT_NAMES = re.compile(
    r"(?:.*requirements.*\.(?:txt|in)|constraints.*\.txt|pyproject\.toml|Pipfile|setup\.cfg|pixi\.toml"
    r"|(?:Docker|Container)file(?:\..*)?|.*\.(?:docker|container)file)",
    re.IGNORECASE,
)
_TEST_NAMES = re.compile(r"test_.*|.*_test|tests?|conftest")
_TEST_FOLDERS = frozenset({"test", "tests"})


class SourceFile(NamedTuple):
    """One file: where it is (absolute), what people are told, what it holds, whose it is."""

    path: str
    shown: str
    kind: Kind
    project: Project
    is_test: bool


class Found(NamedTuple):
    """The files, in the order of their names, and the paths that lead nowhere with the reason."""

    files: tuple[SourceFile, ...]
    missing: tuple[tuple[str, str], ...]


def kind_of(name: str) -> Kind | None:
    """What a file of that name holds; None where that is nothing to check."""
    kind = _KINDS.get(os.path.splitext(name)[1].lower())
    if kind is not None:
        return kind
    if _TEXT_NAMES.fullmatch(name):
        return "text"
    held = source.kind_of(name)
    return held if held != "python" else None


def source_file(path: str, shown: str, kind: Kind, project: Project) -> SourceFile:
    """The file at `path` (absolute)."""
    return SourceFile(path, shown, kind, project, is_test_file(path, project.root))


def is_test_file(path: str, root: str) -> bool:
    """Whether pytest or unittest would take the file for a test or a part of one; folders above `root` do not count."""
    start = root.rstrip(os.sep) + os.sep
    folders = path[len(start) :].split(os.sep)[:-1] if path.startswith(start) else []
    stem = os.path.splitext(os.path.basename(path))[0]
    return bool(_TEST_NAMES.fullmatch(stem)) or not _TEST_FOLDERS.isdisjoint(folders)


def find_files(paths: Iterable[str], projects: Projects, *, with_text: bool, force_exclude: bool = False) -> Found:
    """The files that `paths` mean. `force_exclude`: what is excluded is left out even where it is named."""
    files: dict[str, SourceFile] = {}
    missing: list[tuple[str, str]] = []
    here = os.getcwd()
    for path in dict.fromkeys(paths):
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            project = projects.of(absolute)
            if force_exclude and project.settings.excluded.match(absolute):
                continue
            for file in _walk(absolute, projects, with_text, here):
                files.setdefault(file.path, file)
        elif os.path.exists(absolute):
            project = projects.of(os.path.dirname(absolute))
            if force_exclude and project.settings.excluded.match(absolute):
                continue
            kind = kind_of(os.path.basename(absolute)) or "python"
            files.setdefault(absolute, source_file(absolute, _shown(absolute, here), kind, project))
        else:
            missing.append((path, "there is no such file or folder; check the path"))
    return Found(tuple(sorted(files.values(), key=lambda file: file.shown)), tuple(missing))


def _walk(folder: str, projects: Projects, with_text: bool, here: str) -> Iterator[SourceFile]:
    folders = [folder]
    while folders:
        current = folders.pop()
        project = projects.of(current)
        excluded = project.settings.excluded
        try:
            entries = list(os.scandir(current))
        except OSError:
            continue  # a folder that may not be read: nothing in it was asked for by name
        if any(entry.name == "pyvenv.cfg" for entry in entries) and current != folder:
            continue
        for entry in entries:
            kind = kind_of(entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and (kind is None or (kind == "text" and not with_text)):
                continue
            if excluded.match_entry(entry.name, entry.path):
                continue
            if is_folder:
                folders.append(entry.path)
            elif kind is not None and entry.is_file():
                yield source_file(entry.path, _shown(entry.path, here), kind, project)


def _shown(path: str, here: str) -> str:
    """`path` as people would type it: relative where it lies below `here`."""
    start = here.rstrip(os.sep) + os.sep
    return path[len(start) :] if path.startswith(start) else path
