from __future__ import annotations

import pytest
from asking import module, probes


def loop_lines(source: str) -> list[int]:
    return [found.loop.lineno for found in module(source).evaluations.loops]


def test_by_mode_and_by_name() -> None:
    body = "    for x in loader:\n        model(x)\n"
    assert loop_lines("def run(model, loader):\n    model.eval()\n" + body) == [3]
    assert loop_lines("def run(model, loader):\n    model.train()\n" + body) == []
    assert loop_lines("def run(model, loader):\n" + body) == []
    assert loop_lines("def evaluate(model, loader):\n" + body) == [2]
    assert loop_lines("def evaluate(model, things):\n" + body.replace("loader", "things")) == []


def test_the_outermost_loop_behind_the_mode() -> None:
    source = (
        "for e in range(9):\n    model.eval()\n    for x in loader:\n        for part in x:\n            model(part)\n"
    )
    assert loop_lines(source) == [3]


def test_a_loop_that_trains_is_none() -> None:
    source = "model.eval()\nfor x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    assert loop_lines(source) == []


@pytest.mark.parametrize(
    ("source", "expected"), [("model(x)", True), ("criterion(x, y)", False), ("model()", False), ("unknown(x)", False)]
)
def test_what_runs_a_model(source: str, expected: bool) -> None:
    parsed = module(f"probe({source})\n")
    call = probes(parsed)[0].args[0]
    assert parsed.evaluations.runs_model(call) is expected  # type: ignore[arg-type]
