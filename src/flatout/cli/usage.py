"""What is wrong with a command line that the parser could not take, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

_COMMANDS = ("check", "rule", "predict", "gpus")


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """What the parser did not like, and where to read what it likes."""
    context = getattr(error, "ctx", None)
    if context is not None:
        where = str(context.command_path)
    else:  # the parser does not tell where it is when an option's value is missing
        where = f"flatout {arguments[0]}" if arguments[0] in _COMMANDS else "flatout"
    if type(error).__name__ == "NoSuchOption":
        message = f"there is no option {error.option_name}{_near(error.option_name, context)}"
    else:
        message = str(error.format_message() if hasattr(error, "format_message") else error).rstrip(".")
    return f"{message} (see {where} --help)"


def _near(option: str, context: Any) -> str:
    """The option that was probably meant, of those that the help shows."""
    if context is None:
        return ""
    shown = [parameter for parameter in context.command.params if not getattr(parameter, "hidden", False)]
    names = [name for parameter in shown for name in parameter.opts if name.startswith("--")]
    found = difflib.get_close_matches(option, [*names, "--help"], n=1)
    return f"; did you mean {found[0]}?" if found else ""
