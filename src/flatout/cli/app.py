"""The commands whose options typer reads, and the help over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from flatout import __version__
from flatout.cli import check, gpus, predict, profile, rule
from flatout.cli.usage import usage_message
from flatout.errors import UsageError

app = typer.Typer(
    name="flatout",
    help="Know before you rent the GPU, see while it runs, prove what you changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The script's own options must reach the script, so nothing after its path is read here.
app.command("predict", context_settings={"allow_interspersed_args": False})(predict.predict)
app.command("profile", context_settings={"allow_interspersed_args": False})(profile.profile)
app.command("gpus")(gpus.gpus)

# These read their options themselves, and are here for the help.
_ALL_THEIRS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("check", help=check.HELP, context_settings=_ALL_THEIRS)
def _check(context: typer.Context) -> None:
    raise typer.Exit(check.main(context.args))


@app.command("rule", help=rule.HELP, context_settings=_ALL_THEIRS)
def _rule(context: typer.Context) -> None:
    raise typer.Exit(rule.main(context.args))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flatout {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


# Typer shows neither of these; it has brought its own copy of click since some version and used click itself before.
_ClickException: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException" and issubclass(kind, Exception)
)


def main(arguments: Sequence[str]) -> int:
    """The command line `arguments`, to its exit code. Raises UsageError, KeyboardInterrupt and what commands raise."""
    command = typer.main.get_command(app)
    try:
        return command.main(args=list(arguments), prog_name="flatout", standalone_mode=False) or 0
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except _ClickException as error:
        if not arguments:  # then the help was shown already, and there is nothing more to say
            return UsageError.exit_code
        raise UsageError(usage_message(error, arguments)) from error
