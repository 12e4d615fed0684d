"""The command `flatout`: finds the command that was asked for, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from flatout import __version__
from flatout.cli import gpus, predict
from flatout.cli.predict import INTERRUPTED
from flatout.cli.usage import usage_message
from flatout.errors import FlatoutError, UsageError

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
app.command("gpus")(gpus.gpus)


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


def run(arguments: Sequence[str]) -> int:
    """The command line `arguments`, to its exit code. Errors become one line on standard error."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="flatout", standalone_mode=False)
    except FlatoutError as error:
        return _say(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _say("interrupted", INTERRUPTED)
    except _ClickException as error:
        # Without any argument the help was shown already, and there is nothing more to say.
        return _say(usage_message(error, arguments), UsageError.exit_code) if arguments else UsageError.exit_code
    except Exception as error:
        if os.environ.get("FLATOUT_TRACEBACK"):
            raise
        text = f"{type(error).__name__}: {error}"
        return _say(f"a mistake of flatout's own: {text} (FLATOUT_TRACEBACK=1 shows where; please report it)", 2)
    # Newer versions of typer make an exit code of Ctrl-C instead of an exception.
    return _say("interrupted", INTERRUPTED) if code == INTERRUPTED else code or 0


def main() -> NoReturn:
    """The entry point of the command `flatout`."""
    sys.exit(run(sys.argv[1:]))


def _say(message: str, exit_code: int) -> int:
    print(f"flatout: {message}", file=sys.stderr)
    return exit_code
