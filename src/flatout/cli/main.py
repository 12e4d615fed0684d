"""The command `flatout`: finds the command that was asked for, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from flatout.errors import FlatoutError

INTERRUPTED = 130
# Commands that answer in less time than typer takes to load (0.2 s with its pydantic), so they do without.
_AT_ONCE = {"check": "flatout.cli.check", "rule": "flatout.cli.rule"}


def run(arguments: Sequence[str]) -> int:
    """The command line `arguments`, to its exit code. Errors become one line on standard error."""
    try:
        if arguments and arguments[0] in _AT_ONCE:
            code: int = import_module(_AT_ONCE[arguments[0]]).main(arguments[1:])
        else:
            code = import_module("flatout.cli.app").main(arguments)
    except FlatoutError as error:
        return _say(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Exception as error:
        if os.environ.get("FLATOUT_TRACEBACK"):
            raise
        text = f"{type(error).__name__}: {error}"
        return _say(f"a mistake of flatout's own: {text} (FLATOUT_TRACEBACK=1 shows where; please report it)", 2)
    # Newer versions of typer make an exit code of Ctrl-C instead of an exception.
    return _say("interrupted", INTERRUPTED) if code == INTERRUPTED else code


def main() -> NoReturn:
    """The entry point of the command `flatout`."""
    sys.exit(run(sys.argv[1:]))


def _say(message: str, exit_code: int) -> int:
    print(f"flatout: {message}", file=sys.stderr)
    return exit_code
