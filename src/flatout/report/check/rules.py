"""The rules themselves: their pages, their list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

import flatout
from flatout.check.rule import Rule
from flatout.findings import Severity

_PACKAGE = Path(flatout.__file__).parent
# In an installed package, and beside `src` where it is run from a checkout.
PAGES = (_PACKAGE / "check" / "pages", _PACKAGE.parents[1] / "docs" / "rules")


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, told. `page`: its page in Markdown; None where there is none."""

    code: str
    name: str
    severity: Severity
    default: bool
    in_tests: bool
    reads: str
    page: str | None


class RuleList(msgspec.Struct, frozen=True, kw_only=True):
    """What `flatout rule --json` prints."""

    schema: str = "flatout.rules/1"
    flatout: str = flatout.__version__
    rules: tuple[RuleEntry, ...]


def page(rule: Rule) -> str:
    """The page of a rule, Markdown with a final line end."""
    text = page_of(rule.code)
    if text is None:
        return f"# {rule.code} {rule.name}\n\nSeverity: {rule.severity}. There is no page on this rule.\n"
    return text if text.endswith("\n") else f"{text}\n"


def rules_table(rules: Sequence[Rule]) -> str:
    """A line a rule: code, severity, name, and whether it has to be selected."""
    width = max((len(rule.name) for rule in rules), default=0)
    lines = []
    for rule in rules:
        note = "" if rule.default else "off unless selected"
        lines.append(f"{rule.code}  {rule.severity:<6}  {rule.name:<{width}}  {note}".rstrip() + "\n")
    return "".join(lines)


def rules_json(rules: Sequence[Rule]) -> str:
    """The rules with their pages, as JSON."""
    entries = tuple(
        RuleEntry(
            code=rule.code,
            name=rule.name,
            severity=rule.severity,
            default=rule.default,
            in_tests=rule.in_tests,
            reads=rule.reads,
            page=page_of(rule.code),
        )
        for rule in rules
    )
    return msgspec.json.format(msgspec.json.encode(RuleList(rules=entries)), indent=2).decode() + "\n"


def page_of(code: str) -> str | None:
    """The page of a code, whether its rule looks at source or at a run; None where there is none."""
    for folder in PAGES:
        path = folder / f"{code}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None
