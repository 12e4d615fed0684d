"""`flatout rule`: what a rule of `flatout check` is about."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from flatout.errors import UsageError


def rule(
    name: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation when it runs, on Python 3.10 too
        typer.Argument(metavar="RULE", help="A code (FO101) or a rule's name.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all rules.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print that as JSON.")] = False,
) -> None:
    """Explain a rule of flatout check: what it costs, how that is known, wrong and right code."""
    import sys

    from flatout.check.registry import all_rules, find_rule
    from flatout.report.check.rules import page, rules_json, rules_table

    if every == (name is not None):
        raise UsageError("give one rule, as in flatout rule FO101, or --all")
    chosen = all_rules() if name is None else (find_rule(name),)
    text = rules_json(chosen) if json else page(chosen[0]) if name else rules_table(chosen)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()
