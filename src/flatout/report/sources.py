"""How a place in somebody's source is shown: a short path, and the line itself."""

from __future__ import annotations

import linecache
import os
import re
from pathlib import Path

# C0 controls but the tab, DEL, and the C1 range: a message of the script must not be able to drive the terminal.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without terminal escapes and control characters; line ends stay, tabs become four spaces."""
    return _CONTROLS.sub("", _ANSI.sub("", text)).replace("\t", "    ")


def short_path(file: str) -> str:
    """The path as a person would type it from here: relative when it lies below, `~` for the home, else as it is."""
    path = Path(file)
    if not path.is_absolute():
        return plain(file)
    for base, prefix in ((Path.cwd(), ""), (Path.home(), f"~{os.sep}")):
        if path.is_relative_to(base):
            return plain(prefix + str(path.relative_to(base)))
    return plain(file)


def short_paths(text: str) -> str:
    """`text` with the paths in it as `short_path` would show them."""
    for base, prefix in ((Path.cwd(), ""), (Path.home(), f"~{os.sep}")):
        if len(base.parts) > 1:  # in the root folder every path is a short one
            text = re.sub(rf"(?<![\w./\\~-]){re.escape(str(base) + os.sep)}(?=\w)", lambda _: prefix, text)  # noqa: B023
    return plain(text)


def place_text(file: str, line: int | None) -> str:
    """`train.py:42`, or the file alone where no line is known."""
    return f"{short_path(file)}:{line}" if line else short_path(file)


def source_line(file: str, line: int | None) -> str | None:
    """The line of source without its indentation; None when the file cannot be read or has no such line."""
    if not line:
        return None
    # As a full path: linecache remembers by name, and would look for a short one along sys.path too.
    path = str(Path(file).absolute())
    linecache.checkcache(path)
    text = plain(linecache.getline(path, line)).strip()
    return text or None
