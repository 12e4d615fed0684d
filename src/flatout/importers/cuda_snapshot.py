"""CUDA memory snapshots: what `torch.cuda.memory._dump_snapshot` and `_snapshot` write, plain or compressed.

Files are treated as hostile: nothing in them is run, and reading takes a bounded amount of memory.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, cast

import msgspec

from flatout.errors import UnreadableFileError
from flatout.importers.plain_pickle import PlainPickleError, load_plain
from flatout.recording.schema import Place

MAX_SNAPSHOT_BYTES = 1 << 30
"""Largest snapshot that is read, decompressed. A trace of 100,000 events with stacks takes about 20 MB."""
_XZ_MEMORY_BYTES = 256 << 20
_XZ_MAGIC = b"\xfd7zXZ\x00"
_GZIP_MAGIC = b"\x1f\x8b"

Action: TypeAlias = Literal[
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
]


class SnapshotBlock(msgspec.Struct, frozen=True):
    """A block of a segment. `size` and `requested_size` are bytes; `address` is None in snapshots of old versions."""

    size: int
    state: str
    address: int | None = None
    requested_size: int | None = None
    frames: list[Any] = []

    @property
    def is_active(self) -> bool:
        """In use, or freed and still used by another stream."""
        return self.state.startswith("active")

    @property
    def is_allocated(self) -> bool:
        return self.state == "active_allocated"


class SnapshotSegment(msgspec.Struct, frozen=True):
    """Memory that the allocator had from the device when the snapshot was made. All sizes are bytes."""

    address: int
    total_size: int
    stream: int
    segment_type: Literal["small", "large"]
    blocks: list[SnapshotBlock]
    device: int = 0
    allocated_size: int = 0
    active_size: int = 0
    segment_pool_id: tuple[int, int] = (0, 0)
    is_expandable: bool = False
    frames: list[Any] = []

    def placed_blocks(self) -> list[tuple[int, SnapshotBlock]]:
        """The blocks with their addresses, which old versions leave to be counted up."""
        placed, address = [], self.address
        for block in self.blocks:
            placed.append((address if block.address is None else block.address, block))
            address += block.size
        return placed


class TraceEvent(msgspec.Struct, frozen=True):
    """A move of the allocator. For alloc and free `size` is what was requested; for `oom` `addr` is the free memory."""

    action: Action
    size: int
    stream: int
    addr: int = 0
    device_free: int | None = None
    time_us: int | None = None
    frames: list[Any] = []

    @property
    def place(self) -> Place | None:
        """The innermost Python frame outside PyTorch, or None where no stack was recorded."""
        for frame in self.frames:
            if not isinstance(frame, dict):
                continue
            file = str(frame.get("filename", ""))
            if file.endswith(".py") and "/torch/" not in file.replace("\\", "/"):
                line = frame.get("line", 0)
                return Place(file, line if isinstance(line, int) else 0, str(frame.get("name", "")))
        return None


class CudaSnapshot(msgspec.Struct, frozen=True):
    """A snapshot. `device_traces` has one list of events for each GPU, oldest first; the oldest ones may be lost."""

    segments: list[SnapshotSegment]
    device_traces: list[list[TraceEvent]] = []
    allocator_settings: dict[str, Any] = {}


def read_cuda_snapshot(path: str | Path, limit_bytes: int = MAX_SNAPSHOT_BYTES) -> CudaSnapshot:
    """Reads a snapshot (a pickle, also as .xz or .gz: told by content). Raises UnreadableFileError."""
    path = Path(path)
    data = _read(path, limit_bytes)
    try:
        value = load_plain(data)
    except PlainPickleError as error:
        raise UnreadableFileError(f"{path}: not a CUDA memory snapshot: {error}") from None
    try:
        snapshot = msgspec.convert(value, CudaSnapshot)
    except msgspec.ValidationError as error:
        raise UnreadableFileError(
            f"{path}: not a CUDA memory snapshot: {error}. Make one with torch.cuda.memory._dump_snapshot."
        ) from None
    except RecursionError:
        raise UnreadableFileError(f"{path}: not a CUDA memory snapshot: its values are nested too deeply") from None
    _check(path, snapshot)
    return snapshot


def _check(path: Path, snapshot: CudaSnapshot) -> None:
    for segment in snapshot.segments:
        covered_bytes = sum(block.size for block in segment.blocks)
        if covered_bytes != segment.total_size or any(block.size <= 0 for block in segment.blocks):
            raise UnreadableFileError(
                f"{path}: damaged: the segment at 0x{segment.address:x} has {segment.total_size} bytes,"
                f" its blocks cover {covered_bytes}. Make the snapshot again."
            )


def _read(path: Path, limit_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_XZ_MAGIC))
            file.seek(0)
            opened: IO[bytes] = file
            if magic == _XZ_MAGIC:
                return _read_xz(path, file, limit_bytes)
            if magic.startswith(_GZIP_MAGIC):
                opened = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
            data = opened.read(limit_bytes + 1)
    except (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise UnreadableFileError(f"{path}: the compressed file is damaged: {error}") from None
    except OSError as error:
        raise UnreadableFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    return _within(path, data, limit_bytes)


def _read_xz(path: Path, file: IO[bytes], limit_bytes: int) -> bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)
    output = io.BytesIO()
    while not decoder.eof:
        chunk = file.read(1 << 20) if decoder.needs_input else b""
        if decoder.needs_input and not chunk:
            raise EOFError("it is cut off")
        output.write(decoder.decompress(chunk, max_length=limit_bytes + 1 - output.tell()))
        if output.tell() > limit_bytes:
            break
    return _within(path, output.getvalue(), limit_bytes)


def _within(path: Path, data: bytes, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise UnreadableFileError(
            f"{path}: larger than {limit_bytes} bytes when decompressed. Record fewer events (max_entries)."
        )
    return data
