"""`flatout check`: the GPU mistakes that can be seen in the source."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flatout.cli.options import Options, names
from flatout.errors import UsageError

if TYPE_CHECKING:
    from flatout.check.settings import Settings

HELP = "Find the GPU mistakes that can be seen in PyTorch code: Python, notebooks, and Python in Markdown."
_LEVELS = ("high", "medium", "low", "info")
_RULES = "RULE[,...]"


def main(arguments: Sequence[str]) -> int:
    """`flatout check` with these arguments, to its exit code. Raises UsageError."""
    read = _options().read(arguments)
    if read is None:
        return 0
    from flatout.cli.checking import Wish, answer

    _check_together(read)
    wish = Wish(
        paths=tuple(read.paths or (".",)),
        overrides=_overrides(read),
        isolated=read.isolated,
        force_exclude=read.force_exclude,
        use_cache=not read.no_cache,
        fix=read.fix or read.fix_only,
        unsafe=read.unsafe_fixes,
        diff=read.diff,
        fix_only=read.fix_only,
        show_fixes=read.show_fixes,
        output_format=read.output_format,
        output_file=read.output_file,
        json=read.json,
        statistics=read.statistics,
        fail_on=read.fail_on,
        exit_zero=read.exit_zero,
        stdin_filename=read.stdin_filename,
    )
    try:
        code = answer(wish)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads had enough, as `head` does. Python flushes once more when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _options() -> Options:
    options = Options("check", "[PATH]...", f"{HELP} Nothing is run, and PyTorch is not needed.")
    add = options.add_argument
    add("paths", nargs="*", metavar="PATH", help="files and folders; - is standard input [the current folder]")

    add = options.add_argument_group("which rules").add_argument
    add("--select", action="append", metavar=_RULES, help="only these: FO101, FO1, a rule's name, ALL")
    add("--extend-select", action="append", metavar=_RULES, help="these as well")
    add("--ignore", action="append", metavar=_RULES, help="not these")
    add("--torch", metavar="VERSION", help="the oldest PyTorch that is used, like 2.6 [what the project asks for]")

    add = options.add_argument_group("fixes").add_argument
    add("--fix", action="store_true", help="make the fixes after which the program computes the same")
    add("--unsafe-fixes", action="store_true", help="with --fix or --diff, also those after which it may not")
    add("--diff", action="store_true", help="show what --fix would change, and change nothing")
    add("--fix-only", action="store_true", help="fix, and say nothing of what is left")
    add("--show-fixes", action="store_true", help="list the fixes that were made")

    add = options.add_argument_group("output").add_argument
    formats = "full, concise, json, github, gitlab, junit or sarif [full]"
    add("--output-format", metavar="FORMAT", default="full", help=formats)
    add("-o", "--output-file", metavar="FILE", help="write that to a file")
    add("--json", metavar="FILE", help="write the result as flatout's own JSON; - is standard output")
    add("--statistics", action="store_true", help="how often each rule, instead of each finding")
    add("--fail-on", metavar="LEVEL", default="info", help="exit 1 only for this or worse: high, medium, low, info")
    add("--exit-zero", action="store_true", help="exit 0 also where something was found")

    add = options.add_argument_group("files and settings").add_argument
    add("--exclude", action="append", metavar="PATTERN[,...]", help="do not look there")
    add("--force-exclude", action="store_true", help="leave out what is excluded even where it is named")
    add("--stdin-filename", metavar="FILE", help="what file standard input would be")
    add("--config", action="append", metavar="KEY=VALUE", help="a setting, as TOML: 'ignore=[\"FO1\"]'")
    add("--isolated", action="store_true", help="read no pyproject.toml, and no version from the project")
    add("--no-cache", action="store_true", help="neither use nor keep earlier results")
    return options


def _overrides(read: argparse.Namespace) -> Settings:
    """The settings of the command line."""
    from dataclasses import replace

    from flatout.check.selection import Layer
    from flatout.check.settings import Settings, parse_settings, parse_toml, torch_version

    settings = Settings()
    if read.config:
        for text in read.config:
            if "=" not in text:
                raise UsageError(f"--config {text!r} is not of the form KEY=VALUE, like 'ignore=[\"FO1\"]'")
        table = parse_toml("\n".join(read.config), "--config")
        settings = parse_settings(table, root=os.getcwd(), source="--config")
    layers = settings.layers
    if read.select and not names(read.select):
        raise UsageError("--select is given no rule; name some (FO1, FO101, ALL), or leave it out")
    if read.select or read.extend_select or read.ignore:
        select = names(read.select) if read.select else None
        layers = (*layers, Layer(select, names(read.extend_select), names(read.ignore)))
    return replace(
        settings,
        layers=layers,
        exclude=names(read.exclude) if read.exclude else settings.exclude,
        torch=torch_version(read.torch, "--torch") if read.torch is not None else settings.torch,
    )


def _check_together(read: argparse.Namespace) -> None:
    """Raises UsageError for values that are none, and for options that leave no sense together."""
    from flatout.report.check import FORMATS

    if read.output_format not in FORMATS:
        raise UsageError(f"--output-format {read.output_format!r} is none; give one of {', '.join(FORMATS)}")
    if read.fail_on not in _LEVELS:
        raise UsageError(f"--fail-on {read.fail_on!r} is no level; give one of {', '.join(_LEVELS)}")
    if "-" in read.paths and len(read.paths) > 1:
        raise UsageError("- (standard input) stands alone; check files in another call")
    fix = read.fix or read.fix_only
    if read.diff and (fix or read.json == "-"):
        raise UsageError(f"--diff and {'--fix' if fix else '--json -'} do not go together; leave one out")
    if fix and "-" in read.paths and read.json == "-":
        raise UsageError("--fix writes the fixed standard input to standard output; give --json a file")
