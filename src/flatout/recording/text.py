"""Text as a recording stores it: valid UTF-8, whatever a script made of its names and messages."""

from __future__ import annotations

from typing import Any

import msgspec


def storable(text: str) -> str:
    r"""`text` with what UTF-8 cannot hold (halves of surrogate pairs, as in undecodable file names) as ``\udcff``."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def json_of(value: object) -> str:
    """`value` as JSON, its texts made storable."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value))).decode()


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value
