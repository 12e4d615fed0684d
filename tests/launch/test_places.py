"""Which line is the user's."""

from __future__ import annotations

import json.decoder
import os
import sysconfig

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.launch import places
from flatout.launch.places import Spot, deepest, is_users_own, spot_in_crash

MINE = os.path.join(os.path.abspath(os.sep), "home", "me", "train.py")


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (MINE, True),
        (__file__, True),
        ("<string>", False),
        ("<frozen runpy>", False),
        (places.__file__, False),
        (json.decoder.__file__, False),
        (os.path.join(sysconfig.get_paths()["stdlib"], "site-packages", "torch", "nn.py"), False),
        ("/home/me/project/.venv/lib/python3.12/site-packages/torch/nn.py", False),
        ("/usr/lib/python3/dist-packages/numpy/core.py", False),
        ("/opt/other/lib/python3.13/json/decoder.py", False),
        (r"C:\project\.venv\Lib\site-packages\torch\nn.py", False),
    ],
)
def test_whose_file_it_is(file: str, own: bool) -> None:
    assert is_users_own(file) is own


def test_deepest() -> None:
    mine, library, ours = Spot(MINE, 3, "f"), Spot(json.decoder.__file__, 9, "g"), Spot(places.__file__, 1, "h")
    assert deepest([mine, library, ours]) == mine
    assert deepest([library, ours]) == library
    assert deepest([ours, Spot("<string>", 1, "x")]) is None
    assert deepest([]) is None


CRASH = f"""Fatal Python error: Aborted

Thread 0x00007f793a93d6c0 [loader] (most recent call first):
  File "/home/me/data.py", line 2 in read
  File "{json.decoder.__file__}", line 992 in run

Current thread 0x00007f793b4b7b80 (most recent call first):
  File "{places.__file__}", line 6 in f
  File "{MINE}", line 7 in forward, or so
  File "{MINE}", line 9 in <module>

Extension modules: torch._C (total: 1)
"""


def test_a_crash_is_where_the_thread_that_died_was() -> None:
    assert spot_in_crash(CRASH) == Spot(MINE, 7, "forward, or so")


def test_a_crash_in_a_thread_without_python_is_where_the_script_was() -> None:
    text = CRASH.replace("Current thread", "Thread").replace(
        "Fatal Python error: Aborted",
        "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  <no Python frame>",
    )
    assert spot_in_crash(text) == Spot(MINE, 7, "forward, or so")


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    spot_in_crash(CRASH + text)
    assert spot_in_crash("") is None
