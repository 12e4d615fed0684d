from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from flatout.check.difference import file_diff
from flatout.check.fixing import MOST_ROUNDS, Fixed, fix_data
from flatout.check.jobs import Job
from flatout.check.registry import all_rules

pytestmark = pytest.mark.usefixtures("project")


def _job(kind: str = "python") -> Job:
    codes = tuple(rule.code for rule in all_rules())
    name = {"python": "a.py", "markdown": "a.md", "text": "ci.yml"}[kind]
    return Job(str(Path(name).absolute()), name, kind, False, None, codes)  # type: ignore[arg-type]


def _fix(data: bytes, *, unsafe: bool = False, kind: str = "python") -> Fixed:
    return fix_data(_job(kind), data, unsafe=unsafe)


def test_safe_fixes_are_made_and_what_is_left_is_told() -> None:
    done = _fix(b"a = x.item()  # keep\nrisky = y.item()\n")
    assert done.data == b"a = x  # keep\nrisky = y\n"
    assert [one.finding.line for one in done.applied] == [1, 2]
    assert [one.finding.code for one in done.result.diagnoses] == ["FO105"]
    assert done.dropped == ()


def test_unsafe_fixes_are_made_on_request_and_shown_ones_never() -> None:
    assert _fix(b"risky + shown\n").data == b"risky + shown\n"
    assert _fix(b"risky + shown\n", unsafe=True).data == b"calm + shown\n"


@pytest.mark.parametrize(
    "data",
    [
        b"a = x.item()\r\nb = 2\r\n",
        codecs.BOM_UTF8 + b"a = x.item()\n",
        b"a = x.item()",
        b"\ta = 1\n".replace(b"\ta", b"if x.item():\n\ta"),
        "s = 'আমার'; a = é.item()  # 🚀\n".encode(),
        b"a = x.item()\rb = 1\r",
        b"a = x.item()\x0c\n",
    ],
)
def test_every_other_byte_stays(data: bytes) -> None:
    done = _fix(data)
    assert done.applied
    assert done.data == data.replace(b".item()", b"")


def test_twice_is_once() -> None:
    once = _fix(b"a = x.item().item() + y.item()\n", unsafe=True)
    again = _fix(once.data, unsafe=True)
    assert again.data == once.data == b"a = x + y\n"
    assert again.applied == ()


def test_fixes_that_overlap_wait_for_the_next_round() -> None:
    # The inner call ends where the outer one's edit starts, and lies within what it is asked of.
    done = _fix(b"a = f(x.item()).item().item()\n")
    assert done.data == b"a = f(x)\n"
    assert len(done.applied) == 3


def test_a_fix_that_leaves_no_python_is_dropped_and_the_others_made() -> None:
    text = b"x.item(); y.item()\nbroken\nz.item()\n"
    done = _fix(text)
    assert done.data == b"x; y\nbroken\nz\n"
    assert done.dropped == ("a.py:2: the fix of FO105 was not made, for it would not leave valid Python",)
    assert [one.finding.message for one in done.result.diagnoses] == ["`broken` is a toy"]


def test_fixes_that_never_settle_end() -> None:
    done = _fix(b"endless\n")
    assert len(done.applied) <= 2**MOST_ROUNDS
    assert done.dropped == (f"a.py: fixes of FO105 still ask for more after {MOST_ROUNDS} rounds",)


def test_many_fixes_take_no_time_that_grows_faster() -> None:
    done = _fix(b"x.item()\n" * 5_000)
    assert done.data == b"x\n" * 5_000


def test_a_project_file_is_fixed() -> None:
    done = _fix("# é\r\n- -f x/whl/cu92\r\n".encode(), kind="text")
    assert done.data == "# é\r\n- -f x/whl/cu126\r\n".encode()
    assert not done.result.diagnoses


def test_the_difference_can_be_applied() -> None:
    before = b"a = 1\nb = x.item()"
    assert file_diff(_job(), before, _fix(before).data) == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = x.item()\n\\ No newline at end of file\n"
        "+b = x\n\\ No newline at end of file\n"
    )
    assert file_diff(_job(), before, before) == ""
