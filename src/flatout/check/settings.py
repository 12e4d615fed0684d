"""What a project, and the command line, want of a check.

    read_settings(Path("pyproject.toml")) -> Settings | None     its [tool.flatout.check]; None: it has none
    parse_settings({"select": ["FO1"]}, root="/p", source="…") -> Settings
    combine(settings, overrides) -> Settings                     the command line over the project

Every mistake is a UsageError that names the file, the key and what may stand there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flatout.check.patterns import Patterns
from flatout.check.selection import Layer, codes_of, select_rules
from flatout.check.versions import TorchVersion, parse_version
from flatout.errors import UsageError

TABLE = "[tool.flatout.check]"
# Folders that hold no source of one's own; hidden ones are among them. Version control's, tools' and builders' usual
# names.
DEFAULT_EXCLUDE = (
    ".*",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
_LISTS = ("select", "extend-select", "ignore", "exclude", "extend-exclude", "fixable", "unfixable")
_KEYS = (*_LISTS, "per-file-ignores", "torch")


@dataclass(frozen=True)
class Settings:
    """Settings of one project. Patterns count from `root`, an absolute path."""

    root: str = ""
    layers: tuple[Layer, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] | None = None  # None: DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    fixable: tuple[str, ...] | None = None  # None: all
    unfixable: tuple[str, ...] = ()
    torch: TorchVersion | None = None
    source: str = "the command line"

    @cached_property
    def excluded(self) -> Patterns:
        """What is not looked into unless it is named."""
        exclude = DEFAULT_EXCLUDE if self.exclude is None else self.exclude
        return Patterns((*exclude, *self.extend_exclude), self.root)

    @cached_property
    def rules(self) -> frozenset[str]:
        """The codes of the rules to ask."""
        return select_rules(self.layers)

    @cached_property
    def unfixed(self) -> frozenset[str]:
        """The codes whose fixes are not offered."""
        kept = self.rules if self.fixable is None else codes_of(self.fixable, self.source)
        return self.rules - (kept - codes_of(self.unfixable, self.source))

    @cached_property
    def _ignores(self) -> tuple[tuple[Patterns, frozenset[str]], ...]:
        return tuple(
            (Patterns((pattern,), self.root), codes_of(selectors, self.source))
            for pattern, selectors in self.per_file_ignores
        )

    def rules_for(self, path: str) -> tuple[str, ...]:
        """The codes of the rules to ask of the file at the absolute `path`, sorted."""
        rules = self.rules
        for patterns, codes in self._ignores:
            if patterns.match(path):
                rules = rules - codes
        return tuple(sorted(rules))


def read_settings(path: Path) -> Settings | None:
    """The settings in a pyproject.toml; None where it has no table for them. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"cannot read {_shown(path)}: {reason}; --isolated goes without it") from error
    if "flatout" not in text:
        return None
    table = parse_toml(text, _shown(path)).get("tool", {}).get("flatout", {}).get("check")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{_shown(path)}: tool.flatout.check must be a table, {TABLE}")
    return parse_settings(table, root=str(path.absolute().parent), source=_shown(path))


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """`text` as TOML. Raises UsageError."""
    from flatout.check.toml import TOMLDecodeError, loads

    try:
        tables: dict[str, Any] = loads(text)
    except TOMLDecodeError as error:
        raise UsageError(f"{source}: not valid TOML: {error}") from error
    return tables


def parse_settings(table: dict[str, Any], *, root: str, source: str) -> Settings:
    """The settings in a table. Raises UsageError for an unknown key or a value of another type."""
    for key in table:
        if key not in _KEYS:
            from difflib import get_close_matches

            near = get_close_matches(key, _KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(_KEYS)}"
            raise UsageError(f"{source}: {TABLE} has no key {key!r}{hint}")
    lists = {key: _strings(table[key], key, source) for key in _LISTS if key in table}
    settings = Settings(
        root=root,
        layers=(
            Layer(lists.get("select"), lists.get("extend-select", ()), lists.get("ignore", ()), f"{source}: {TABLE}"),
        ),
        per_file_ignores=_per_file(table.get("per-file-ignores", {}), source),
        exclude=lists.get("exclude"),
        extend_exclude=lists.get("extend-exclude", ()),
        fixable=lists.get("fixable"),
        unfixable=lists.get("unfixable", ()),
        torch=torch_version(table["torch"], f"{source}: {TABLE} torch") if "torch" in table else None,
        source=f"{source}: {TABLE}",
    )
    _ = settings.rules, settings.unfixed, settings._ignores  # a selector that is no rule is told now
    return settings


def combine(settings: Settings, over: Settings) -> Settings:
    """`settings` with those of the command line over them."""
    return replace(
        settings,
        layers=(*settings.layers, *over.layers),
        per_file_ignores=(*settings.per_file_ignores, *over.per_file_ignores),
        exclude=settings.exclude if over.exclude is None else over.exclude,
        extend_exclude=(*settings.extend_exclude, *over.extend_exclude),
        fixable=settings.fixable if over.fixable is None else over.fixable,
        unfixable=(*settings.unfixable, *over.unfixable),
        torch=over.torch or settings.torch,
    )


def torch_version(value: object, what: str) -> TorchVersion:
    """A PyTorch version as people write it. Raises UsageError, naming `what`."""
    version = parse_version(value) if isinstance(value, str) else None
    if version is None:
        raise UsageError(f'{what}: {value!r} is not a version of PyTorch; write it like "2.6"')
    return version


def _strings(value: object, key: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f'{source}: {TABLE} {key} must be a list of strings, like ["FO1"]')
    return tuple(value)


def _per_file(value: object, source: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise UsageError(f'{source}: {TABLE} per-file-ignores must be a table, like {{"scripts/*.py" = ["FO1"]}}')
    return tuple((pattern, _strings(codes, "per-file-ignores", source)) for pattern, codes in value.items())


def _shown(path: Path) -> str:
    """As short as it can be told."""
    try:
        return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    except ValueError:
        return str(path)
