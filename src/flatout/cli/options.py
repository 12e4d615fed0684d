"""Reading options without typer, for commands that answer at once: argparse, with our errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from flatout.errors import UsageError


class Options(argparse.ArgumentParser):
    """Options of one command. Wrong usage is a UsageError; options and arguments may stand in any order."""

    def __init__(self, command: str, operands: str, description: str) -> None:
        super().__init__(
            prog=f"flatout {command}",
            usage=f"flatout {command} [OPTIONS] {operands}",
            description=description,
            allow_abbrev=False,
            formatter_class=_Help,
        )

    def read(self, arguments: Sequence[str]) -> argparse.Namespace | None:
        """The options; None where help was asked for and shown."""
        try:
            return self.parse_intermixed_args(list(arguments))
        except SystemExit:
            return None

    def error(self, message: str) -> NoReturn:
        """What argparse calls where it cannot go on."""
        unknown = re.match(r"unrecognized arguments: (--?[^\s=]+)", message)
        if unknown:
            from difflib import get_close_matches

            near = get_close_matches(unknown[1], self._option_string_actions, 1)
            message = f"there is no option {unknown[1]}{f'; did you mean {near[0]}?' if near else ''}"
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{**more, "max_help_position": 34})

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)


def names(options: Sequence[str] | None) -> tuple[str, ...]:
    """The values of an option that may be given more than once, each with commas."""
    return tuple(name.strip() for option in options or () for name in option.split(",") if name.strip())
