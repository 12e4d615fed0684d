"""Results of earlier checks, by content.

    cache = Cache.open(folder)              folder: where `.flatout_cache` lies or will lie
    cache.get(digest, file) -> FileResult | None
    cache.save(results)

As ruff and mypy do, the folder lies in the project, says to Git and to backups that it is not theirs, and may be
deleted at any time. A file of another version, or a damaged one, is as none; where nothing can be written, nothing is
kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from flatout import __version__
from flatout.check.result import FileResult
from flatout.source.writing import write_atomically

FOLDER = ".flatout_cache"
# The tag of https://bford.info/cachedir/, by which backup programs know a cache.
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of flatout check.\n"


class Cache:
    """The results that are known, and where they are kept."""

    def __init__(self, path: Path, known: dict[str, FileResult]) -> None:
        self._path = path
        self._known = known

    @classmethod
    def open(cls, folder: Path) -> Cache:
        """The cache below `folder`. Never raises."""
        path = folder / FOLDER / f"check-{__version__}-{_fingerprint()}.msgpack"
        known: dict[str, FileResult] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            known = {result.file: result for result in msgspec.msgpack.decode(path.read_bytes(), type=list[FileResult])}
        return cls(path, known)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, digest: bytes, file: str) -> FileResult | None:
        """What that content gave, for the same questions."""
        found = self._known.get(file)
        return found if found is not None and found.digest == digest else None

    def save(self, results: Iterable[FileResult]) -> None:
        """Keep `results`, and what is known of other files that are still there. Never raises."""
        new = {result.file: result for result in results if result.digest}
        old = {file: result for file, result in self._known.items() if file not in new and os.path.exists(file)}
        folder = self._path.parent
        with contextlib.suppress(OSError):
            if not folder.exists():
                folder.mkdir()
                (folder / ".gitignore").write_text("# made by flatout check\n*\n", encoding="utf-8")
                (folder / "CACHEDIR.TAG").write_text(_TAG, encoding="utf-8")
            write_atomically(self._path, msgspec.msgpack.encode([*old.values(), *new.values()]))
            for path in folder.glob("check-*.msgpack"):
                if path != self._path:
                    path.unlink()


def _fingerprint() -> str:
    """Changes with Python, whose parser decides, and with this package, whose version stays while it is worked on."""
    package = Path(__file__).parents[1]
    seen = hashlib.blake2b(sys.version.encode(), digest_size=6)
    for part in ("check", "source", "findings"):
        for folder, _, names in sorted(os.walk(package / part)):
            for name in sorted(names):
                if not name.endswith((".pyc", ".pyo")):
                    status = os.stat(os.path.join(folder, name))
                    seen.update(f"{name} {status.st_size} {status.st_mtime_ns}".encode())
    return seen.hexdigest()
