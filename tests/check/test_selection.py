from __future__ import annotations

import pytest

from flatout.check.registry import find_rule, matching
from flatout.check.selection import Layer, select_rules
from flatout.errors import UsageError

pytestmark = pytest.mark.usefixtures("toy_rules")

DEFAULT = {"FO101", "FO105", "FO805"}


@pytest.mark.parametrize(
    ("layers", "codes"),
    [
        ([], DEFAULT),
        ([Layer(select=("FO1",))], {"FO101", "FO105"}),
        ([Layer(select=("toy-quiet",))], {"FO201"}),
        ([Layer(select=("fo201",))], {"FO201"}),
        ([Layer(select=("ALL",))], {*DEFAULT, "FO201"}),
        ([Layer(select=("all",), ignore=("FO1",))], {"FO201", "FO805"}),
        ([Layer(select=("FO101",), ignore=("FO1",))], {"FO101"}),
        ([Layer(select=("FO1",), ignore=("FO101",))], {"FO105"}),
        ([Layer(select=("FO1",), ignore=("FO1",))], set()),
        ([Layer(extend_select=("FO2",))], {*DEFAULT, "FO201"}),
        ([Layer(ignore=("FO101",))], {"FO105", "FO805"}),
        ([Layer(ignore=("FO101",)), Layer(extend_select=("FO101",))], DEFAULT),
        ([Layer(select=("FO1",)), Layer(ignore=("FO101",))], {"FO105"}),
        ([Layer(ignore=("FO101",)), Layer(select=("FO1",))], {"FO101", "FO105"}),
        ([Layer(select=())], set()),
    ],
)
def test_layers(layers: list[Layer], codes: set[str]) -> None:
    assert select_rules(layers) == codes


@pytest.mark.parametrize("selector", ["FO999", "F", "toy", "E501", "", "FO101x"])
def test_a_selector_that_is_no_rule_is_named_with_its_place(selector: str) -> None:
    with pytest.raises(UsageError, match=rf"a.toml: {selector!r} is no rule.*flatout rule --all"):
        select_rules([Layer(ignore=(selector,), source="a.toml")])


def test_find_rule() -> None:
    assert find_rule("fo101") is find_rule("toy-item") is find_rule("TOY-ITEM")
    with pytest.raises(UsageError, match=r"'FO100'; near it: .*FO101"):
        find_rule("FO100")
    with pytest.raises(UsageError, match="near it: toy-item"):
        find_rule("toy-itm")


def test_a_family_is_the_start_of_its_codes() -> None:
    assert matching("FO") == {*DEFAULT, "FO201"}
    assert matching("FO8") == {"FO805"}
    assert matching("O8") == frozenset()
