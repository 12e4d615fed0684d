"""What GPUs cost an hour, as people write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatout.cli.prices import prices_of
from flatout.errors import FlatoutError, UsageError
from flatout.gpu import find


def test_pairs() -> None:
    assert prices_of("h100=2.5, a100-40gb = 1", "--price", None) == {
        find("h100").label: 2.5,
        find("a100-40gb").label: 1.0,
    }


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("t4 = 0.35\n'rtx 4090' = 1\n")
    assert prices_of(str(path), "--price", None) == {find("t4").label: 0.35, find("rtx 4090").label: 1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h100=", "no number of dollars"),
        ("=3", "not of the form NAME=DOLLARS"),
        ("h100=2,a100", "'a100' is not of the form"),
        ("h100=cheap", "'cheap' is no number"),
        ("h100=-1", "from 0"),
        ("h100=nan", "from 0"),
        ("h100=inf", "from 0"),
        ("no_such_file", "no such prices"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        prices_of(text, "--price", None)


def test_an_unknown_gpu_gets_the_names_near_it() -> None:
    with pytest.raises(FlatoutError, match="h1000"):
        prices_of("h1000=2", "--price", None)


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text("h100 2.5")
    with pytest.raises(FlatoutError, match=r"prices\.toml: is not TOML"):
        prices_of(str(path), "--price", None)
