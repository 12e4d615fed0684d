"""File patterns as in ruff's `exclude`: `build`, `*.gen.py`, `docs/*`, `**/vendor`.

A pattern without a slash is held against each name, one with a slash against the path from the root; either also takes
in all that lies below what it names.
"""

from __future__ import annotations

import fnmatch
import os
import re
from functools import cached_property


class Patterns:
    """Patterns that count from `root`, an absolute path."""

    def __init__(self, patterns: tuple[str, ...], root: str) -> None:
        self._patterns = tuple(pattern.replace(os.sep, "/").removeprefix("./").rstrip("/") for pattern in patterns)
        self._root = root

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return _union([pattern for pattern in self._patterns if "/" not in pattern])

    @cached_property
    def _paths(self) -> re.Pattern[str]:
        paths = [pattern for pattern in self._patterns if "/" in pattern]
        # `**/x` is also x at the root: fnmatch has no pattern for that.
        paths += [pattern[3:] for pattern in paths if pattern.startswith("**/")]
        return _union(paths)

    def match(self, path: str) -> bool:
        """Whether the absolute `path`, or a folder below the root that it lies in, is meant."""
        start = self._root.rstrip(os.sep) + os.sep
        # Of a path outside the root, no folder above it may decide.
        inside = path[len(start) :] if path.startswith(start) else os.path.basename(path)
        parts = [part for part in inside.replace(os.sep, "/").split("/") if part]
        return any(
            self._names.match(part) or self._paths.match("/".join(parts[: number + 1]))
            for number, part in enumerate(parts)
        ) or bool(self._paths.match(path.replace(os.sep, "/")))

    def match_entry(self, name: str, path: str) -> bool:
        """The same for a `path` of whose folders it is known that none is meant, and its last `name`."""
        if self._names.match(name):
            return True
        return self._paths.pattern != _NOTHING and self.match(path)


_NOTHING = r"(?!)"


def _union(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or _NOTHING)
