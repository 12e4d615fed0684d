from __future__ import annotations

import pytest

from flatout.check.registry import find_rule
from flatout.check.suppress import Suppressions

pytestmark = pytest.mark.usefixtures("toy_rules")


def _hidden(text: str, line: int = 1, last: int | None = None, *, is_python: bool = True) -> bool:
    found = Suppressions.of(text, is_python=is_python)
    return found is not None and found.hide(find_rule("FO101"), line, last or line)


@pytest.mark.parametrize(
    ("comment", "hidden"),
    [
        ("# flatout: ignore[FO101]", True),
        ("# flatout: ignore[FO1]", True),
        ("# flatout: ignore[toy-item]", True),
        ("# flatout: ignore[fo101, FO999]", True),
        ("# flatout:ignore", True),
        ("# why  # flatout: ignore[FO101] because", True),
        ("# flatout: ignore[FO102]", False),
        ("# flatout: ignore[]", False),
        ("# flatout: ignored", False),
        ("# noqa", True),
        ("# NOQA", True),
        ("#noqa:FO101", True),
        ("# noqa: E501,FO101", True),
        ("# noqa: E501 FO101", True),
        ("# noqa: E501", False),
        ("# noqa: F401", False),
        ("# noqale", False),
        ("# type: ignore", False),
    ],
)
def test_comments(comment: str, hidden: bool) -> None:
    assert _hidden(f"x = y.item()  {comment}\n") is hidden


def test_only_the_finding_s_own_statement(tmp_path: object) -> None:
    text = "a = 1  # noqa\nb = y.item()\nc = 1  # noqa\n"
    assert not _hidden(text, 2)


STATEMENT = "x = f(\n    a,\n    y.item(),\n    b,\n)  # noqa: FO101\n"


def test_the_last_line_of_a_statement_counts() -> None:
    assert _hidden(STATEMENT, 3)
    assert _hidden(STATEMENT.replace("\n", "\r\n"), 3)
    assert _hidden(STATEMENT.replace("\n", "\r"), 3)
    assert not _hidden(STATEMENT.replace(")  # noqa: FO101", ")").replace("b,", "b,  # noqa"), 3)
    assert _hidden(STATEMENT.replace(")  # noqa: FO101", ")").replace("item(),", "item(),  # noqa"), 3)


def test_of_a_compound_statement_only_the_head_counts() -> None:
    text = "for x in (\n    y.item(),\n):  # noqa\n    z.item()\n"
    assert _hidden(text, 2)
    assert not _hidden(text, 4)


def test_the_last_line_of_the_finding_counts() -> None:
    assert _hidden("x = f(y\n  .item()  # noqa\n)\n", 1, 2)


def test_the_whole_file() -> None:
    text = "x = y.item()\n# flatout: ignore-file[{}]\n"
    assert _hidden(text.format("FO101"))
    assert not _hidden(text.format("FO102"))
    assert _hidden("x = y.item()\n# flatout: ignore-file\n")


def test_a_string_is_no_comment() -> None:
    assert not _hidden("x = y.item(), '# noqa'\n")
    assert _hidden("x = y.item(), '# noqa'\n", is_python=False)


def test_other_text_and_what_does_not_tokenize() -> None:
    assert _hidden("pip install x <!-- flatout: ignore[FO101] -->\n", is_python=False)
    assert _hidden("x = (  # noqa\n")


def test_nothing_is_read_where_no_such_word_stands() -> None:
    assert Suppressions.of("x = y.item()\n", is_python=True) is None
