"""Tracebacks as the script alone would have them."""

from __future__ import annotations

from flatout.launch import tracebacks
from flatout.launch.tracebacks import without_flatout

OURS = f"""\
  File "{tracebacks.__file__}", line 9, in hide_flatout
    hide()
    ~~~~^^
"""
THEIRS = """\
  File "/home/me/train.py", line 10, in __getitem__
    return load(index)
           ^^^^^^^^^^^
"""


def test_a_quoted_traceback_loses_flatouts_lines() -> None:
    head, tail = "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback:\n", "RuntimeError: no\n"
    assert without_flatout(head + THEIRS + OURS + OURS + tail) == head + THEIRS + tail
    assert without_flatout(head + OURS + THEIRS + tail) == head + THEIRS + tail


def test_other_text_stays() -> None:
    for text in ("", "no such file", head_only := '  File "' + tracebacks.__file__ + '"', THEIRS):
        assert without_flatout(text) == text
    assert head_only
