"""Where the recordings of a run go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flatout.errors import RecordingError, UsageError
from flatout.recording import open_recording


def recording_paths(output: Path | None, labels: Sequence[str], scratch: Path) -> list[Path]:
    """One path a GPU: in `scratch`, or `output` itself, with the GPU's name before its suffix where there are several.

    Raises UsageError for a place that cannot be written, and for a file that is there and is no recording.
    """
    if output is None:
        return [scratch / f"{slug(name)}.flatout" for name in labels]
    if len(labels) == 1:
        paths = [output]
    else:
        paths = [output.with_name(f"{output.stem}-{slug(name)}{output.suffix}") for name in labels]
    for path in paths:
        _make_room(path)
    return paths


def slug(name: str) -> str:
    """A GPU's name as part of a file's name: `h100-sxm-80-gb`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _make_room(path: Path) -> None:
    """Take an older recording away; anything else that stands there stays, and is an error."""
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.parent}; make it, or give another --output")
    if not path.exists():
        return
    try:
        open_recording(path)
    except (RecordingError, OSError) as error:
        raise UsageError(f"{path} is there and is not a recording; give another file to --output") from error
    path.unlink()
