"""flatout's own table of GPUs, and the users' files beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flatout.errors import UnreadableFileError
from flatout.gpu.rows import Row, gpu_from_row
from flatout.gpu.specification import GPU, Source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

DATA = Path(__file__).parent / "data"
# Newest first, so that listings begin with what people rent.
GENERATIONS = ("blackwell", "hopper", "ada", "ampere", "turing", "volta", "pascal")


def user_file() -> Path:
    """Where the user's own GPUs are: `$XDG_CONFIG_HOME/flatout/gpus.toml`, else `~/.config/flatout/gpus.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "flatout" / "gpus.toml"


def all_gpus(file: Path | None = None) -> tuple[GPU, ...]:
    """All known GPUs: those of `file`, those of the user's own file where there is one, then flatout's table.

    Raises `UnreadableFileError` for a file that cannot be read, naming file, key and rule.
    """
    files = [] if file is None else [file]
    if user_file().is_file():
        files.append(user_file())
    own = built_in()
    users: tuple[GPU, ...] = ()
    for path in files:
        users += read_file(path, (*users, *own))
    return users + own


@lru_cache(maxsize=1)
def built_in() -> tuple[GPU, ...]:
    """flatout's own table, newest generation first; the first GPU of a family is what the family's name means."""
    source = _lookup(_parse(DATA / "sources.toml"), DATA / "sources.toml")
    found: list[GPU] = []
    for generation in GENERATIONS:
        path = DATA / f"{generation}.toml"
        found += [gpu_from_row(Row(row, path, i), source) for i, row in enumerate(_parse(path)["gpu"], 1)]
    return tuple(found)


def read_file(path: Path, known: tuple[GPU, ...]) -> tuple[GPU, ...]:
    """The GPUs of a user's file. `known` are those that a row may name with `like`.

    Raises `UnreadableFileError` for a file that is absent, no TOML, or breaks a rule.
    """
    content = _parse(path)
    rows = content.get("gpu")
    if not (isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)):
        raise UnreadableFileError(f"{path}: gpu: a file of GPUs has one [[gpu]] table or more (docs/gpus.md shows one)")
    own = content.get("sources", {})
    shipped = _parse(DATA / "sources.toml")
    source = _lookup({**shipped, **own} if isinstance(own, dict) else shipped, path)
    found: list[GPU] = []
    for i, values in enumerate(rows, 1):
        row = Row(values, path, i)
        if "like" in values:
            row = Row(_inherited(row, (*found, *known)), path, i)
        found.append(gpu_from_row(row, source))
    return tuple(found)


def _inherited(row: Row, known: tuple[GPU, ...]) -> Mapping[str, Any]:
    from flatout.gpu.inherit import row_of
    from flatout.gpu.names import resolve

    like = row.values["like"]
    base = resolve(like, known) if isinstance(like, str) else None
    if base is None:
        raise row.error("like", f"no GPU of the name {like!r} is known")
    own = {key: value for key, value in row.values.items() if key != "like"}
    return row_of(base, own)


def _parse(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError:
        raise UnreadableFileError(f"{path}: is not UTF-8 text; a file of GPUs is TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFileError(f"{path}: is not TOML: {error}") from None
    return content


def _lookup(entries: Mapping[str, Any], path: Path) -> Callable[[str], Source]:
    def source(text: str) -> Source:
        key, _, detail = text.partition(":")
        entry = entries.get(key)
        if isinstance(entry, dict):
            return Source(key, str(entry.get("title", key)), str(entry.get("url", "")), detail)
        if path.parent == DATA:
            raise UnreadableFileError(f'{path}: no source "{key}"')
        # A user may write the source itself in place of a key.
        return Source("user", text)

    return source
