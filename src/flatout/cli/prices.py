"""Reading what GPUs cost an hour: `h100=2.5,a100=1.3`, or a TOML file of such lines."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path

from flatout.errors import UnreadableFileError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


def prices_of(text: str, option: str, gpus_file: Path | None) -> dict[str, float]:
    """Dollars an hour by the GPUs' labels. Raises UsageError, or UnreadableFileError for a file that is none."""
    from flatout.gpu import find

    items = _pairs(text, option) if "=" in text else _lines(Path(text), option)
    found = {}
    for name, price in items:
        if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price) or price < 0:
            raise UsageError(f"{option} {name}={price}: a price is a number of dollars an hour, from 0")
        found[find(name, gpus_file).label] = float(price)
    return found


def _pairs(text: str, option: str) -> Iterable[tuple[str, object]]:
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name or not equals:
            raise UsageError(
                f"{option} {item.strip()!r} is not of the form NAME=DOLLARS; write it like h100=2.5,a100=1.3"
            )
        try:
            yield name, float(value)
        except ValueError:
            raise UsageError(
                f"{option} {item.strip()}: {value!r} is no number of dollars an hour; write it like h100=2.5"
            ) from None


def _lines(path: Path, option: str) -> Iterable[tuple[str, object]]:
    try:
        return list(tomllib.loads(path.read_text(encoding="utf-8")).items())
    except OSError as error:
        raise UsageError(
            f"{option} {path}: no such prices ({error.strerror}); write NAME=DOLLARS, or the path of a TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableFileError(f"{path}: is not TOML: {error}; write lines like h100 = 2.5") from None
