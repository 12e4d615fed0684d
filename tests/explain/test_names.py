"""A code has one name and one page, whoever reports it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from flatout.check.rules import all_rules
from flatout.explain.names import NAMES

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "rules"
_BLOCK = re.compile(r"^(Wrong|Right)[^\n]*:\n+```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_code_that_a_rule_names_has_a_name() -> None:
    rules = ROOT / "src" / "flatout" / "explain" / "rules"
    named = {code for path in rules.glob("*.py") for code in re.findall(r'"(FO\d+)"', path.read_text("utf-8"))}
    assert named == set(NAMES)


def test_a_mistake_that_is_found_in_source_too_has_the_same_name_there() -> None:
    static = {rule.code: rule.name for rule in all_rules()}
    shared = NAMES.keys() & static.keys()
    assert len(shared) >= 8
    assert {code: static[code] for code in shared} == {code: NAMES[code] for code in shared}
    assert not {NAMES[code] for code in NAMES.keys() - shared} & set(static.values())


@pytest.mark.parametrize("code", NAMES)
def test_its_page_tells_the_cost_and_shows_wrong_and_right(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text("utf-8")
    assert text.splitlines()[0] == f"# {code} {NAMES[code]}"
    assert "**What it costs.**" in text
    assert re.search(r"\bin a run\b", text, re.IGNORECASE)
    blocks = _BLOCK.findall(text)
    assert {"Wrong", "Right"} == {kind for kind, _ in blocks}
    for _, block in blocks:
        ast.parse(block)


@pytest.mark.parametrize("page", ["timeline.md", "rules/README.md"])
def test_every_code_is_in_the_lists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [code for code in NAMES if code not in text] == []
