from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from flatout.report.terminal import command_text, print_prediction
from flatout.virtual.prediction import Prediction

GOLDEN = Path(__file__).parent / "golden"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def text_of(
    prediction: Prediction, width: int = 80, *, encoding: str = "utf-8", verbose: bool = False, **options: Any
) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_prediction(prediction, Console(file=file, width=width, **options), verbose=verbose)
    file.flush()
    return raw.getvalue().decode(encoding)


def compare(name: str, text: str) -> None:
    """`text` is what the file says; FLATOUT_UPDATE_GOLDEN=1 writes it there instead (then read the difference)."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FLATOUT_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_golden(named: tuple[str, Prediction]) -> None:
    name, prediction = named
    compare(name, text_of(prediction))


def test_golden_verbose(predictions: dict[str, Prediction]) -> None:
    compare("fits_verbose", text_of(predictions["fits"], 100, verbose=True))


def test_golden_timed_verbose(predictions: dict[str, Prediction]) -> None:
    compare("timed_verbose", text_of(predictions["timed"], 100, verbose=True))


def test_golden_ranked_wide(predictions: dict[str, Prediction]) -> None:
    compare("ranked_wide", text_of(predictions["ranked"], 140))


def test_golden_ascii(predictions: dict[str, Prediction]) -> None:
    compare("out_of_memory_ascii", text_of(predictions["out_of_memory"], 60, encoding="ascii"))


def test_golden_several_wide(predictions: dict[str, Prediction]) -> None:
    compare("several_wide", text_of(predictions["several"], 130))


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("width", [40, 53, 80, 127, 200])
def test_no_line_is_wider_than_the_terminal_or_ends_in_spaces(
    named: tuple[str, Prediction], width: int, encoding: str, verbose: bool
) -> None:
    for line in text_of(named[1], width, encoding=encoding, verbose=verbose).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_without_a_terminal_there_is_no_colour(named: tuple[str, Prediction]) -> None:
    assert "\x1b" not in text_of(named[1], verbose=True)


def test_colour_adds_nothing_that_words_do_not_say(named: tuple[str, Prediction]) -> None:
    """Apart from the bar, where letters take the place of colour, the text is the same."""
    coloured = text_of(named[1], force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured
    bare = [line.rstrip() for line in ESCAPES.sub("", coloured).splitlines() if "▕" not in line]
    assert bare == [line for line in text_of(named[1]).splitlines() if "▕" not in line]


def test_no_color_is_honoured(predictions: dict[str, Prediction], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = text_of(predictions["out_of_memory"], force_terminal=True, color_system="truecolor")
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9])[;m]", text)
    assert "AAAAA" in text


def test_a_script_cannot_drive_the_terminal(predictions: dict[str, Prediction]) -> None:
    result = predictions["error"].results[0]
    assert result.error is not None
    hostile = msgspec.structs.replace(
        result.error, message="\x1b[2J[bold]gone[/bold]\r" + "x\n" * 50, notes=("\x1b[2J[dim]", "y\n" * 50)
    )
    prediction = msgspec.structs.replace(
        predictions["error"],
        arguments=("\x1b[31m--evil", "[red]"),
        results=(msgspec.structs.replace(result, error=hostile),),
        assumptions=("\x1b]0;title\x07what",),
    )
    text = text_of(prediction)
    assert "\x1b" not in text
    assert "[bold]gone[/bold]" in text
    assert "[red]" in text
    assert "more lines with -v" in text
    assert "[dim]" in text
    assert text.count("\n") < 35


def test_notes_of_an_error_follow_its_message(predictions: dict[str, Prediction]) -> None:
    result = predictions["error"].results[0]
    assert result.error is not None
    noted = msgspec.structs.replace(result.error, message="no\n" * 20, notes=("class 7 is out of range",))
    prediction = msgspec.structs.replace(predictions["error"], results=(msgspec.structs.replace(result, error=noted),))
    lines = [line.strip() for line in text_of(prediction).splitlines()]
    assert lines[-2:] == ["class 7 is out of range", "12 more lines with -v"]


def test_memory_that_ran_out_and_was_caught_is_a_note(predictions: dict[str, Prediction]) -> None:
    prediction = predictions["fits"]
    facts = {**prediction.results[0].facts, "out_of_memory_caught": 2}
    result = msgspec.structs.replace(prediction.results[0], facts=facts)
    text = " ".join(text_of(msgspec.structs.replace(prediction, results=(result,))).split())
    assert "left of 39.6 GiB (out of memory caught 2 x)" in text


@pytest.mark.parametrize(
    ("script", "arguments", "text"),
    [
        ("train.py", ("--lr", "1e-3"), "train.py --lr 1e-3"),
        ("my train.py", ("two words", "", "*.pt", "a'b"), "'my train.py' 'two words' '' '*.pt' 'a'\"'\"'b'"),
        ("-m pkg.mod", ("-m", "x y"), "-m pkg.mod -m 'x y'"),
        ("train.py", ("a\nb\x1b[31m",), "train.py 'a\\nb'"),
    ],
)
def test_the_command_is_shown_as_a_shell_takes_it(script: str, arguments: tuple[str, ...], text: str) -> None:
    assert command_text(script, arguments) == text


def test_each_run_is_told_by_its_own_steps(predictions: dict[str, Prediction]) -> None:
    alone = text_of(predictions["out_of_memory"])
    assert "no optimizer step · PyTorch" in alone
    assert "What it takes without a limit, over 3 steps:" in alone
    assert "up to 3 steps · PyTorch" in text_of(predictions["several"])
    verbose = text_of(predictions["out_of_memory"], verbose=True)
    assert "Steps, without a limit" in verbose
    assert "Facts, until memory ran out" in verbose
    assert "without a limit" not in text_of(predictions["fits"], verbose=True)


def test_what_was_caught_stays_where_the_figure_has_no_room(predictions: dict[str, Prediction]) -> None:
    comparison = text_of(predictions["halved"], 80).partition("T4 16 GB")[2].splitlines()[0]
    assert "out of memory caught 2 x" in comparison
    assert "left of" not in comparison
