"""`flatout rule`: what a rule is about, whether it looks at source or at a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from flatout.cli.options import Options
from flatout.errors import UsageError

HELP = "Explain a rule: what it costs, how that is known, wrong and right code."


def main(arguments: Sequence[str]) -> int:
    """`flatout rule` with these arguments, to its exit code. Raises UsageError."""
    options = Options("rule", "RULE | --all", HELP)
    options.add_argument("name", nargs="?", metavar="RULE", help="a code (FO101) or a rule's name")
    options.add_argument("--all", action="store_true", help="list all rules")
    options.add_argument("--json", action="store_true", help="print that as JSON")
    read = options.read(arguments)
    if read is None:
        return 0
    if read.all == (read.name is not None):
        raise UsageError("give one rule, as in flatout rule FO101, or --all")
    from flatout.check.registry import all_rules, find_rule
    from flatout.report.check.rules import page, rules_json, rules_table

    told = None if read.json or read.name is None else _page_of_a_run(read.name)
    if told is not None:
        return _write(told)
    chosen = all_rules() if read.name is None else (find_rule(read.name),)
    text = rules_json(chosen) if read.json else page(chosen[0]) if read.name else rules_table(chosen)
    return _write(text)


def _page_of_a_run(name: str) -> str | None:
    """The page of a rule that only sees a run; None for any other name."""
    from flatout.check.registry import all_rules
    from flatout.explain.names import NAMES
    from flatout.report.check.rules import page_of

    wanted = name.strip().lower()
    known = {rule.code for rule in all_rules()}
    code = next((code for code, name in NAMES.items() if wanted in (code.lower(), name) and code not in known), None)
    return None if code is None else page_of(code)


def _write(text: str) -> int:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()
    return 0
