"""The pages of the rules: what they call wrong is found, and what they call right is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from flatout.check.module import Module
from flatout.check.rule import Hit, Rule, TextFile
from flatout.check.rules import all_rules
from flatout.explain.names import NAMES
from flatout.source import SourceText

# Pages of rules that only see a run are looked at in tests/explain/test_names.py.
ONLY_IN_A_RUN = NAMES.keys() - {rule.code for rule in all_rules()}
ALL_PAGES = sorted((Path(__file__).parents[2] / "docs" / "rules").glob("FO*.md"))
PAGES = [page for page in ALL_PAGES if page.stem not in ONLY_IN_A_RUN]
_BLOCK = re.compile(r"^(Wrong|Right)[^\n]*:\n+```(?:python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _finder(rule: Rule) -> Callable[[object], Iterator[Hit]]:
    return cast("Callable[[object], Iterator[Hit]]", rule.find)


def _file(rule: Rule, code: str) -> Module | TextFile:
    if rule.reads == "text":
        return TextFile(SourceText(code), "page.sh", None)
    return Module.parse(SourceText(code), path="page.py")


def test_each_rule_has_its_page() -> None:
    assert [page.stem for page in PAGES] == [rule.code for rule in all_rules()]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_wrong_is_found_and_right_is_not(page: Path) -> None:
    (rule,) = [rule for rule in all_rules() if rule.code == page.stem]
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert {"Wrong", "Right"} <= {kind for kind, _ in blocks}
    for kind, code in blocks:
        asked = any(word in code for word in rule.needs or ("",))
        found = list(_finder(rule)(_file(rule, code))) if asked else []
        assert bool(found) is (kind == "Wrong"), code
