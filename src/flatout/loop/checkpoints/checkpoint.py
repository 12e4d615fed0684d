"""Checkpoint files: there whole or not at all, read without running anything that is in them.

A version is one file, `step-00000120.pt` after 120 optimizer steps; `torch.load(file, weights_only=True)` reads it too.
It is written under another name in the same folder, flushed to the disk and renamed, so whatever bears the name of a
version is complete: a kill or a full disk at any moment leaves the versions before it as they were.

`torch.load` does not notice a flipped bit (measured in 2.6 and 2.13: the tensor is handed out wrong). The file is a zip
archive with a CRC-32 of every part, so reading checks those first, at about 3 GB/s on one core.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch

from flatout.errors import CheckpointError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SCHEMA = "flatout.checkpoint/1"
_VERSION = re.compile(r"step-(\d{8,})\.pt")
_UNFINISHED = re.compile(r"\.step-\d{8,}\.pt\.[0-9a-f]{16}\.unfinished")
_REMOVED = "remove it to go on"


def versions(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first. None in a folder that does not exist."""
    if not folder.exists():
        return []
    try:
        found = [(_step(path), path) for path in folder.iterdir() if _VERSION.fullmatch(path.name)]
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot be read as a folder of checkpoints ({error.strerror}); give another folder"
        ) from error
    return [path for _, path in sorted(found)]


def _step(path: Path) -> int:
    match = _VERSION.fullmatch(path.name)
    assert match
    return int(match[1])


ROOM = "the versions saved before are untouched; make room or give a folder that can be written to"

# --- writing ----------------------------------------------------------------------------------------------------------


def write(folder: Path, content: dict[str, Any], *, keep: int | None = None) -> Path:
    """Write a new version; then remove all but the newest `keep` (None: keep all). Returns its path.

    `content` is plain (see plain.py); it holds the optimizer's `steps` and the `run` that they belong to. Versions of
    the same run that are ahead of it (the run went back to an earlier one) are removed as well; those of another run
    are a `UsageError`, because the next resume would take them for this run's newest.

    Raises `CheckpointError` where it cannot be written; the versions that are there stay untouched.
    """
    target = folder / f"step-{content['steps']:08d}.pt"
    try:
        _make(folder)
        _clean(folder)
        there = versions(folder)
        ahead = [path for path in there if _step(path) > content["steps"]]
        for path in ahead:
            if _peek(path).get("run") != content["run"]:
                raise UsageError(
                    f"loop.save({str(folder)!r}): the folder holds {path.name} of another run, ahead of this run's "
                    f"{target.name}, and a resume would take it; save into another folder, or {_REMOVED}"
                )
        with _replacing(target) as file:
            _save({"schema": SCHEMA, **content}, file)
        behind = [path for path in there if _step(path) < content["steps"]]
        for path in ahead + (behind[: max(0, len(behind) + 1 - keep)] if keep else []):
            path.unlink(missing_ok=True)
    except OSError as error:
        no_folder = isinstance(error, FileExistsError | NotADirectoryError)
        raise CheckpointError(
            f"loop.save({str(folder)!r}): {target.name} cannot be written ({error.strerror or error}); "
            + ("what is there is no folder; give another place" if no_folder else ROOM)
        ) from error
    return target


def _make(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _sync_folder(folder.parent)


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A file that becomes `target` when the block has ended well, and vanishes when it has not."""
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}.unfinished")
    with open(unfinished, "xb") as file:
        try:
            if fcntl is not None:  # tells other processes that its writer is alive
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(unfinished, target)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


def _save(content: dict[str, Any], file: BinaryIO) -> None:
    checked = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        torch.save(content, file)
    except RuntimeError as error:  # PyTorch's writer says only that a write fell short
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise
    finally:
        torch.serialization.set_crc32_options(checked)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clean(folder: Path) -> None:
    """Remove what killed processes left unfinished. The lock of a living writer protects its file."""
    for path in folder.iterdir():
        if fcntl is not None and _UNFINISHED.fullmatch(path.name):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """What `write` wrote. Its tensors are on the CPU and read from the file as they are used (memory-mapped).

    Raises `CheckpointError` for whatever is not a whole checkpoint. Never falls back to an older version: which one to
    go on from is for the user to say.
    """
    try:
        with open(path, "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            fault = _fault(file, size_bytes)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    if fault is None:
        content = _peek(path)
        schema = content.get("schema")
        if schema == SCHEMA:
            return content
        fault = "is not a checkpoint that loop.save wrote"
        if isinstance(schema, str) and schema.startswith("flatout.checkpoint/"):
            fault = f"has the schema {schema}, and this flatout reads {SCHEMA}; read it with flatout {_of(content)}"
    raise CheckpointError(f"{path}: {fault}{_way_out(path)}")


def _of(content: dict[str, Any]) -> str:
    version = content.get("flatout")
    return version if isinstance(version, str) else "of a newer version"


def _fault(file: BinaryIO, size_bytes: int) -> str | None:
    """What is wrong with the archive: its parts are to be uncompressed, within the file, and of the right CRC-32."""
    if size_bytes == 0:
        return "is empty"
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
                return "is not a checkpoint: it holds compressed parts"
            if sum(part.file_size for part in parts) > size_bytes:
                return "is damaged: its parts are longer than the file"
            damaged = archive.testzip()
            return None if damaged is None else f"is damaged: the checksum of its part {damaged} is wrong"
    except Exception as error:  # whatever a hostile or broken file makes of the reader
        file.seek(0)
        if file.read(4) == b"PK\x03\x04":
            return f"is cut off or damaged ({error})"
        return "is not a checkpoint that loop.save wrote"


def _peek(path: Path) -> dict[str, Any]:
    """The content, its tensors unread; an empty dictionary for a file of something else. Runs nothing that is in it."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # whatever a hostile or broken file makes of the reader
        return {}
    return content if isinstance(content, dict) else {}


def _way_out(path: Path) -> str:
    older = [other for other in versions(path.parent) if _VERSION.fullmatch(path.name) and _step(other) < _step(path)]
    if not older:
        return ""
    return f'; to go on from the version before it: loop.resume("{older[-1]}")'
