"""The PyTorch that a project asks for: the lowest version that it admits, so that no rule speaks of what is not so
there.

    parse_version("2.6.1") -> (2, 6)
    lowest(">=2.1,<3") -> (2, 1)             of a requirement's specifiers, PEP 440, conda and poetry; None: any
    asked_in(Path("project")) -> (2, 1)      what the files of one folder say; None: nothing

A file that declares what is admitted (pyproject.toml, setup.cfg, setup.py, requirements, environment) goes before one
that locks what is installed, and the first that names a version decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TorchVersion = tuple[int, int]

_VERSION = re.compile(r"[vV]?(?:\d+!)?(\d+)(?:\.(\d+))?")
# One condition on a version. PEP 440's, and `^`, `~` (poetry), `=` (conda); conda's build string follows a second `=`.
_CONDITION = re.compile(r"(===|==|~=|>=|<=|!=|>|<|\^|~|=|(?<![\w./-]))\s*[vV]?(\d[\w.*+!]*)(?:=[\w.*]+)?")
_REST = re.compile(r"@|\s--?\w")  # a place to install from, options of pip
# `torch`, `pytorch` at the start of a requirement: conditions follow. Not `torchvision`, `torch-geometric`, `torch.nn`.
_REQUIREMENT = re.compile(
    r"^\s*(?:-\s*)?[\"']?(?:pytorch::|conda-forge::|nvidia::|defaults::)?(?:py)?torch(?![\w.-])\s*(?:\[[^\]]*\])?\s*\(?([^;#\"')\n]*)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"([\"'])\s*(torch(?![\w.-])[^\"'\n]*)\1")
_LOCKED = re.compile(r"^name\s*=\s*\"torch\"\s*\nversion\s*=\s*\"([^\"\n]+)\"", re.MULTILINE)
_WHEEL = re.compile(r"/torch-(\d[\w.]*)")
_LARGEST_BYTES = 32 * 1024 * 1024  # of a lock file; the largest on record are a few MiB


def parse_version(text: str) -> TorchVersion | None:
    """Major and minor of `text`; None where it is no version."""
    match = _VERSION.match(text.strip())
    return (int(match[1]), int(match[2] or 0)) if match else None


def lowest(conditions: str) -> TorchVersion | None:
    """The lowest version that the comma-separated `conditions` admit; None where they set no lower bound."""
    wheel = _WHEEL.search(conditions)
    if wheel:
        return parse_version(wheel[1])
    if "||" in conditions:
        lower = [lowest(part) for part in conditions.split("||")]
        return min((bound for bound in lower if bound), default=None) if all(lower) else None
    bounds = []
    for operator, version in _CONDITION.findall(_REST.split(conditions)[0]):
        parsed = parse_version(version)
        if parsed and operator not in ("<", "<=", "!="):
            bounds.append(parsed)
    return max(bounds, default=None)


def asked_in(folder: Path) -> TorchVersion | None:
    """The lowest PyTorch that the files of `folder` admit; None where none names a version. Never raises."""
    for found in (
        _pyproject(folder),
        _strings(folder / "setup.py"),
        _lines(folder, ("setup.cfg",)),
        _lines(folder, ("requirements*.txt", "requirements*.in", "requirements/*.txt")),
        _lines(folder, ("environment*.yml", "environment*.yaml", "conda*.yml", "conda*.yaml")),
        _locks(folder),
    ):
        if found is not None:
            return found
    return None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _lines(folder: Path, patterns: tuple[str, ...]) -> TorchVersion | None:
    """The lowest of the requirements that stand on lines of their own."""
    found = []
    for pattern in patterns:
        for path in folder.glob(pattern):
            for line in _read(path).splitlines():
                match = _REQUIREMENT.match(line)
                if match and (bound := lowest(match[1])):
                    found.append(bound)
    return min(found, default=None)


def _strings(path: Path) -> TorchVersion | None:
    """The lowest of the requirements that are string literals of a Python file."""
    matches = (_REQUIREMENT.match(match[2]) for match in _QUOTED.finditer(_read(path)))
    bounds = (lowest(match[1]) for match in matches if match)
    return min((bound for bound in bounds if bound), default=None)


def _locks(folder: Path) -> TorchVersion | None:
    """What is locked: uv.lock, poetry.lock, pdm.lock and pylock.toml write a package's name and version alike."""
    versions = [
        parse_version(match[1])
        for name in ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
        for match in _LOCKED.finditer(_read(folder / name).replace("\r\n", "\n"))
    ]
    return min((version for version in versions if version), default=None)


def _pyproject(folder: Path) -> TorchVersion | None:
    text = _read(folder / "pyproject.toml")
    if "torch" not in text:
        return None
    from flatout.check.toml import TOMLDecodeError, loads

    try:
        tables = loads(text)
    except TOMLDecodeError:
        return None
    bounds = [lowest(conditions) for conditions in _declared(tables)]
    return min((bound for bound in bounds if bound), default=None)


def _declared(tables: dict[str, Any]) -> Iterator[str]:
    """The conditions on torch in a pyproject.toml: PEP 621, dependency groups, poetry."""
    project, poetry = _table(tables, "project"), _table(tables, "tool", "poetry")
    lists = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    lists += _table(tables, "dependency-groups").values()
    for requirements in lists:
        for requirement in requirements if isinstance(requirements, list) else ():
            match = _REQUIREMENT.match(requirement) if isinstance(requirement, str) else None
            if match:
                yield match[1]
    groups = [poetry, *(group for group in _table(poetry, "group").values() if isinstance(group, dict))]
    for dependencies in (_table(group, key) for group in groups for key in ("dependencies", "dev-dependencies")):
        value = dependencies.get("torch")
        for one in value if isinstance(value, list) else [value]:
            version = one.get("version") if isinstance(one, dict) else one
            if isinstance(version, str):
                yield version


def _table(tables: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The table at `keys`; an empty one where something else, or nothing, stands there."""
    found: Any = tables
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}
