"""The accuracy benchmark: how rows are drawn, split and scored, and that a worker tells what a run did."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "accuracy"
MODULES = ("dry", "score", "timm_brackets", "timm_score", "peft_rows", "bert_rows", "amp_rows")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("FLATOUT_ACCURACY_CACHE", str(tmp_path))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def timm(load: Any) -> ModuleType:
    return load("timm_brackets")


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("tf_efficientnet_b7_ns", "efficientnet"),
        ("efficientnet_b2a", "efficientnet"),
        ("ssl_resnet18", "resnet"),
        ("resnetv2_50x1_bit_distilled", "resnet"),
        ("ecaresnext50t_32x4d", "resnext"),
        ("swinv2_cr_tiny_384", "swin"),
        ("dpn98", "dpn"),
    ],
)
def test_families(timm: ModuleType, model: str, family: str) -> None:
    assert timm.family(model) == family


def test_a_family_is_in_one_half_and_the_halves_are_alike(timm: ModuleType) -> None:
    models = [f"{name}_{i}" for name, count in zip("abcdefghij", range(1, 30, 3)) for i in range(count)]
    halves = timm.halves(models)
    assert set(halves) == set("abcdefghij")
    sizes = {side: sum(halves[timm.family(m)] == side for m in models) for side in ("fitting", "scoring")}
    assert abs(sizes["fitting"] - sizes["scoring"]) <= 4
    assert halves == timm.halves(reversed(models))


def test_the_sample_takes_one_row_of_a_model(timm: ModuleType) -> None:
    rows = [timm.Bracket(layout, f"net{i}", 8, 224, 12) for layout in timm.LAYOUTS for i in range(50)]
    chosen = timm.sample(rows, 10, timm.SEED)
    assert len({row.model for row in chosen}) == len(chosen) == 10
    assert {row.layout for row in chosen} == set(timm.LAYOUTS)
    assert chosen == timm.sample(rows, 10, timm.SEED)


def test_a_later_draw_has_other_models(timm: ModuleType) -> None:
    rows = [timm.Bracket(layout, f"net{i}", 8, 224, 12) for layout in timm.LAYOUTS for i in range(50)]
    draws = timm.draws(rows, ((1, 20), (2, 30)))
    first, second = ({row.model for row in draws[seed]} for seed in (1, 2))
    assert draws[1] == timm.sample(rows, 20, 1)
    assert len(second) == 30
    assert first.isdisjoint(second)


def test_a_failure_is_disputed_where_an_older_pytorch_took_that_batch(load: Any, timm: ModuleType) -> None:
    scoring = load("timm_score")
    (model, layout), batch = next(iter(timm.fitted_before().items()))
    bracket = timm.Bracket(layout, model, batch // 2, 224, batch)
    failed, larger = (scoring.Try(bracket, b, False, 1, 1, 1) for b in (batch, 2 * batch))
    fitted = scoring.Try(bracket, batch // 2, True, 1, 1, 1)
    assert scoring.undisputed([failed, larger, fitted]) == [larger, fitted]


def test_no_batch_is_larger_than_the_first(timm: ModuleType) -> None:
    assert timm.Bracket("nhwc", "net", 512, 224, None).arguments(512)[-1] == "--channels-last"
    assert tuple(sorted(timm.WALK, reverse=True)) == timm.WALK


def test_scores(load: Any, timm: ModuleType) -> None:
    scoring = load("timm_score")
    bracket = timm.Bracket("nchw", "net", 8, 224, 12)
    tries = [scoring.Try(bracket, 8, True, 1, 1, 1)] * 100 + [scoring.Try(bracket, 12, False, 2, 2, 2)] * 100

    def verdict(one: Any) -> Any:
        return scoring.Verdict(one.fitted, one.fitted)

    lines = scoring.score_half("half", tries, verdict, counts=True)
    assert [line.met for line in lines] == [True] * 4
    assert scoring.misses(tries, verdict) == []

    def all_fit(one: Any) -> Any:
        return scoring.Verdict(True, True)

    assert [line.met for line in scoring.score_half("half", tries, all_fit, counts=True)] == [True, False, False, True]
    assert {miss["really"] for miss in scoring.misses(tries, all_fit)} == {"fails"}


def test_the_table_has_a_row_a_line(load: Any) -> None:
    score = load("score")
    lines = [score.median_error_line("set", [1.0, -7.0, 2.0], 5, "memory"), score.Line("set", 3, "goal", "got", None)]
    assert lines[0].met
    assert lines[0].got == "median 2.0 %, worst -7.0 %"
    assert len(score.table(lines).splitlines()) == 3


@pytest.mark.integration
def test_a_worker_tells_what_a_run_did_and_keeps_it(load: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.empty(1 << 20, device='cuda')\nimport sys; sys.argv[1:] and 1 / 0\n")
    runner = load("dry").Runner("test", ["torch"])
    told = runner.run(str(script), [], "t4")
    assert (told["outcome"], told["peak_allocated_bytes"], told["peak_reserved_bytes"]) == ("fits", 4 << 20, 20 << 20)
    assert runner.run(str(script), [], "t4", 1 << 20)["outcome"] == "out_of_memory"
    failed = runner.run(str(script), ["fail"], "t4")
    assert failed["outcome"] == "error"
    assert "ZeroDivisionError" in failed["message"]
    runner.close()
    kept = [json.loads(line) for line in (tmp_path / "test-outcomes.jsonl").read_text().splitlines()]
    assert [entry["outcome"]["outcome"] for entry in kept] == ["fits", "out_of_memory", "error"]
    again = load("dry").Runner("test", ["torch"])
    assert again.run(str(script), [], "t4") == told
    assert again._worker is None
