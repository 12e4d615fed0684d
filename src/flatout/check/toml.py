"""TOML, from the standard library where that has it; loaded only where there is some."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads  # type: ignore[import-not-found, unused-ignore]

__all__ = ["TOMLDecodeError", "loads"]
