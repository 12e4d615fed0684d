from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from flatout.report.details import fact_text, print_details
from flatout.virtual.prediction import Prediction


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("matmul_dtypes", {"float32": 9, "bfloat16": 1234}, "float32 9, bfloat16 1,234"),
        ("optimizer_state_bytes", 230_736, "225 KiB"),
        ("live_bytes_by_category", {"parameters": 1 << 20, "inputs": 512}, "parameters 1.00 MiB, inputs 512 B"),
        ("attention_kernels", {}, "none"),
        ("attention", "flash\n\x1b[31m", "flash "),
        ("compiled", True, "true"),
        ("ratio", 0.5, "0.5"),
        ("pools", [1, 2], "[1, 2]"),
    ],
)
def test_facts_are_written_for_people(name: str, value: object, text: str) -> None:
    assert fact_text(name, value) == text


def details(prediction: Prediction, width: int, **fields: object) -> list[str]:
    file = io.StringIO()
    print_details(msgspec.structs.replace(prediction.results[0], **fields), Console(file=file, width=width))
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 70, 100])
def test_a_long_fact_is_wrapped_and_none_of_it_is_lost(predictions: dict[str, Prediction], width: int) -> None:
    counts = {f"kind{number}": number for number in range(60)}
    lines = details(predictions["fits"], width, facts={"kernels": counts})
    words = " ".join(" ".join(lines).split())
    assert all(f"{kind} {number}" in words for kind, number in counts.items())
    assert max(map(len, lines)) <= width


def test_a_place_is_never_cut_in_its_number(predictions: dict[str, Prediction]) -> None:
    for width in range(40, 100):
        waits = "\n".join(details(predictions["fits"], width)).partition("Where the host waits")[2].splitlines()[1:3]
        assert [line.split()[2] for line in waits] == ["train.py:9", "train.py:8"]
