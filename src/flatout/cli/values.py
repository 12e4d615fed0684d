"""Reading the values of options: counts, durations, lists of names, assumptions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flatout.errors import UsageError

_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd])")
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_WORDS = {"true": True, "false": False}


def count(text: str, option: str, least: int = 1) -> int:
    """A whole number from `least` on. Raises UsageError, naming `option`.

    Read here and not by the library of the command line, whose words for what is wrong change with its version.
    """
    cleaned = text.strip()
    if not (cleaned.isascii() and cleaned.isdigit() and len(cleaned) < 10 and int(cleaned) >= least):
        raise UsageError(f"{option} {text!r} is not a whole number from {least} on; write it like 3")
    return int(cleaned)


def factor(text: str, option: str) -> float:
    """A number above 0. Raises UsageError, naming `option`."""
    cleaned = text.strip()
    if not _NUMBER.fullmatch(cleaned) or float(cleaned) <= 0:
        raise UsageError(f"{option} {text!r} is not a number above 0; write it like 1.5")
    return float(cleaned)


def duration_seconds(text: str, option: str) -> float | None:
    """A duration in seconds: `90`, `90s`, `10m`, `1h30m`; None for `none`. Raises UsageError, naming `option`."""
    cleaned = text.strip().lower().replace(" ", "")
    if cleaned == "none":
        return None
    pieces = _PIECE.findall(cleaned)
    if _NUMBER.fullmatch(cleaned):
        seconds = float(cleaned)
    elif pieces and "".join(number + unit for number, unit in pieces) == cleaned:
        seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in pieces)
    else:
        raise UsageError(f"{option} {text!r} is not a duration; write it like 90s, 10m, 1h30m or none")
    if seconds <= 0:
        raise UsageError(f"{option} {text!r} leaves no time to run; give more than 0 seconds, or none for no limit")
    return seconds


def names(text: str, option: str) -> list[str]:
    """The names of a comma-separated list, each once, in their order. Raises UsageError, naming `option`."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise UsageError(f"{option} {text!r} has an empty name; write it like h100 or h100,a100")
    return list(dict.fromkeys(found))


def varied(text: str, option: str) -> tuple[str, tuple[int, ...], bool]:
    """`batch-size=8..512` or `batch-size=8,16,32`: the argument as a script spells it, values, whether by doubling.

    Raises UsageError, naming `option`.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    low, dots, high = (part.strip() for part in value.partition(".."))
    if not name.lstrip("-") or not equals:
        raise UsageError(f"{option} {text!r} is not of the form NAME=LOW..HIGH; write it like batch-size=8..512")
    argument = name if name.startswith("-") else f"--{name}"
    numbers = [count(number, f"{option} {name}=") for number in ((low, high) if dots else value.split(","))]
    if dots and numbers[0] > numbers[1]:
        raise UsageError(f"{option} {text!r} goes from {numbers[0]} down to {numbers[1]}; write the smaller one first")
    return argument, tuple(numbers) if dots else tuple(dict.fromkeys(numbers)), bool(dots)


def assumptions(texts: Sequence[str], option: str) -> dict[str, float | bool]:
    """`NAME=VALUE` pairs; a value is a number, `true` or `false`. Raises UsageError, naming `option`."""
    found: dict[str, float | bool] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals:
            raise UsageError(f"{option} {text!r} is not of the form NAME=VALUE")
        found[name] = _value(value, text, option)
    return found


def _value(value: str, text: str, option: str) -> float | bool:
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise UsageError(f"{option} {text!r}: {value!r} is not a value; give a number, true or false")


def check_json(json: str | None) -> None:
    """Whether `--json` can be written: better before the script runs than after ten minutes. Raises UsageError."""
    if json is not None and not json.strip():
        raise UsageError("--json '' has no name; give the name of a file, or - for standard output")
    if json not in (None, "-") and Path(str(json)).is_dir():
        raise UsageError(f"--json {json}: that is a directory; give the name of a file")
    if json not in (None, "-") and not Path(str(json)).absolute().parent.is_dir():
        raise UsageError(f"--json {json}: there is no such directory; make it, or give another file to --json")
