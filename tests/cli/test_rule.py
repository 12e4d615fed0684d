from __future__ import annotations

import json
from pathlib import Path

import pytest

from flatout.cli import main
from flatout.report.check import rules

pytestmark = pytest.mark.usefixtures("toy_rules")


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PAGES", (tmp_path / "none", tmp_path))
    (tmp_path / "FO101.md").write_text("# FO101 toy-item\n\nআমার", encoding="utf-8")


@pytest.mark.usefixtures("pages")
def test_a_rule_s_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FO101", "fo101", "toy-item"):
        assert main.run(["rule", name]) == 0
        assert capsys.readouterr().out == "# FO101 toy-item\n\nআমার\n"
    assert main.run(["rule", "FO105"]) == 0
    assert "There is no page on this rule" in capsys.readouterr().out


@pytest.mark.usefixtures("pages")
def test_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rule", "--all"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "FO101  high    toy-item",
        "FO105  low     toy-names",
        "FO201  info    toy-quiet   off unless selected",
        "FO805  medium  toy-wheels",
    ]
    assert main.run(["rule", "--all", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["schema"] == "flatout.rules/1"
    assert [rule["code"] for rule in listed["rules"]] == ["FO101", "FO105", "FO201", "FO805"]
    assert listed["rules"][0]["page"].startswith("# FO101")
    assert listed["rules"][1]["page"] is None


@pytest.mark.parametrize("line", ["rule", "rule FO101 --all", "rule FO9"])
def test_wrong_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(line.split()) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["FO413", "fo413", "float32-products-off-tensor-cores"])
def test_a_rule_that_only_sees_a_run_has_a_page_too(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rule", name]) == 0
    assert capsys.readouterr().out.startswith("# FO413 float32-products-off-tensor-cores\n")
