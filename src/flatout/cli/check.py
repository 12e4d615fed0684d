"""`flatout check`: the GPU mistakes that can be seen in the source."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flatout.errors import UsageError

if TYPE_CHECKING:
    from flatout.check.settings import Settings
    from flatout.cli.checking import Wish

_LEVELS = ("high", "medium", "low", "info")
_RULES = "RULE[,RULE...]"


def check(
    paths: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Argument(metavar="[PATH]...", help="Files and folders; - is standard input. [here]", show_default=False),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Make the fixes that keep what the program computes.")] = False,
    unsafe_fixes: Annotated[
        bool, typer.Option("--unsafe-fixes", help="With --fix or --diff, also those that may change it.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and change nothing.")] = False,
    fix_only: Annotated[bool, typer.Option("--fix-only", help="Fix, and report nothing of what is left.")] = False,
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="List the fixes that were made.")] = False,
    select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar=_RULES, help="Only these: FO101, FO1, a rule's name, ALL.", show_default=False),
    ] = None,
    extend_select: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar=_RULES, help="These as well.", show_default=False),
    ] = None,
    ignore: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar=_RULES, help="Not these.", show_default=False),
    ] = None,
    exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="PATTERN[,...]", help="Do not look there (see also force-exclude).", show_default=False),
    ] = None,
    torch: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="VERSION", help="The oldest PyTorch that is used: 2.6. [as the project says]"),
    ] = None,
    output_format: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FORMAT", help="full, concise, json, github, gitlab, junit or sarif. [full]"),
    ] = None,
    output_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--output-file", "-o", metavar="FILE", help="Write that there.", show_default=False),
    ] = None,
    json: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the result as flatout's JSON; - for standard output."),
    ] = None,
    statistics: Annotated[bool, typer.Option("--statistics", help="How often each rule, not each finding.")] = False,
    fail_on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="LEVEL", help="Exit 1 only for this or worse: high, medium, low, info. [info]"),
    ] = None,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 also where something was found.")] = False,
    stdin_filename: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="What file standard input would be.", show_default=False),
    ] = None,
    config: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="KEY=VALUE", help="A setting, as TOML: 'ignore=[\"FO1\"]'.", show_default=False),
    ] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="Read no pyproject.toml.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither read nor keep earlier results.")] = False,
    force_exclude: Annotated[
        bool, typer.Option("--force-exclude", help="Leave out what is excluded even where it is named.")
    ] = False,
) -> None:
    """Find the GPU mistakes that can be seen in PyTorch code: Python, notebooks, and Python in Markdown.

    Nothing is run and PyTorch is not needed. Settings stand in pyproject.toml, under [tool.flatout.check].
    """
    from flatout.cli.checking import Wish, answer

    wish = Wish(
        paths=tuple(paths or (".",)),
        overrides=_overrides(select, extend_select, ignore, exclude, torch, config),
        isolated=isolated,
        force_exclude=force_exclude,
        use_cache=not no_cache,
        fix=fix or fix_only,
        unsafe=unsafe_fixes,
        diff=diff,
        fix_only=fix_only,
        show_fixes=show_fixes,
        output_format=output_format or "full",
        output_file=output_file,
        json=json,
        statistics=statistics,
        fail_on=_level(fail_on),
        exit_zero=exit_zero,
        stdin_filename=stdin_filename,
    )
    _check_together(wish)
    try:
        code = answer(wish)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads had enough, as `head` does. Python flushes once more when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    raise typer.Exit(code)


def _overrides(
    select: list[str] | None,
    extend_select: list[str] | None,
    ignore: list[str] | None,
    exclude: list[str] | None,
    torch: str | None,
    config: list[str] | None,
) -> Settings:
    """The settings of the command line."""
    from dataclasses import replace

    from flatout.check.selection import Layer
    from flatout.check.settings import Settings, parse_settings, parse_toml, torch_version

    layers: tuple[Layer, ...] = ()
    settings = Settings()
    if config:
        for text in config:
            if "=" not in text:
                raise UsageError(f"--config {text!r} is not of the form KEY=VALUE, like 'ignore=[\"FO1\"]'")
        # Each may be on its own line, but for a table one says a.b=...: TOML puts them together.
        table = parse_toml("\n".join(config), "--config")
        settings = parse_settings(table, root=os.getcwd(), source="--config")
        layers = settings.layers
    own = Layer(_names(select) if select else None, _names(extend_select), _names(ignore))
    if select or extend_select or ignore:
        layers = (*layers, own)
    return replace(
        settings,
        layers=layers,
        exclude=_names(exclude) if exclude else settings.exclude,
        torch=torch_version(torch, "--torch") if torch is not None else settings.torch,
    )


def _names(options: list[str] | None) -> tuple[str, ...]:
    """The values of an option that may be given more than once, each with commas."""
    return tuple(name.strip() for option in options or () for name in option.split(",") if name.strip())


def _level(text: str | None) -> str:
    if text is None:
        return "info"
    if text not in _LEVELS:
        raise UsageError(f"--fail-on {text!r} is no level; give one of {', '.join(_LEVELS)}")
    return text


def _check_together(wish: Wish) -> None:
    from flatout.report.check import FORMATS

    if wish.output_format not in FORMATS:
        raise UsageError(f"--output-format {wish.output_format!r} is none; give one of {', '.join(FORMATS)}")
    if "-" in wish.paths and len(wish.paths) > 1:
        raise UsageError("- (standard input) stands alone; check files in another call")
    if wish.diff and (wish.fix or wish.json == "-"):
        other = "--fix" if wish.fix else "--json -"
        raise UsageError(f"--diff and {other} do not go together; leave one out")
    if wish.json == "-" and "-" in wish.paths and wish.fix:
        raise UsageError("--fix writes the fixed standard input to standard output; give --json a file")
