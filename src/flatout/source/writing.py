"""Files that are either whole or as they were."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` in place of what is at `path` at once, or not at all; its mode stays. Raises OSError.

    Where `path` is a link, the file that it leads to is replaced. A new file gets the mode that `open` gives.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = _usual_mode()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _usual_mode() -> int:
    """The mode that `open` would have given: a temporary file is private, a result is not."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
