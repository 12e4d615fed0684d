from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from flatout.check.result import CheckResult
from flatout.check.run import Request, check_paths
from flatout.report.check import FORMATS, Options, render
from flatout.report.check.own import check_report
from flatout.report.check.parts import statistics, summary
from flatout.report.json_file import json_text


@pytest.fixture
def result(project: Path) -> CheckResult:
    (project / "a.py").write_text("for x in y:\n\ttotal += x.item()\n\nrisky\n")
    (project / "বই, 1:2.py").write_text("s = 'আমার 漢字', é.item()\n", encoding="utf-8")
    (project / "bad.py").write_text("item = (\n")
    (project / "clean.py").write_text("a = 1\n")
    return check_paths(Request(use_cache=False)).result


EMPTY = CheckResult(3, None, ())


def _render(result: CheckResult, name: str, **options: bool) -> str:
    return render(result, name, Options(**options))


def test_concise(result: CheckResult) -> None:
    assert _render(result, "concise").splitlines() == [
        "a.py:2:11: FO101 [*] `x.item()` waits",
        "a.py:4:1: FO105 `risky` is a toy",
        "বই, 1:2.py:1:16: FO101 [*] `é.item()` waits",
    ]
    assert "FO105 [*]" in _render(result, "concise", unsafe=True)


def test_full(result: CheckResult) -> None:
    assert _render(result, "full") == (
        "FO101 toy-item [*] (high): `x.item()` waits\n"
        " --> a.py:2:11\n"
        "  |\n"
        "1 | for x in y:\n"
        "2 |     total += x.item()\n"
        "  |              ^^^^^^^^\n"
        "3 |\n"
        "4 | risky\n"
        "  |\n"
        "help: read it rarely\n"
        "fix: Read it later\n"
        "\n"
        "FO105 toy-names (low): `risky` is a toy\n"
        " --> a.py:4:1\n"
        "  |\n"
        "2 |     total += x.item()\n"
        "3 |\n"
        "4 | risky\n"
        "  | ^^^^^\n"
        "  |\n"
        "fix (--fix --unsafe-fixes): Write `calm`\n"
        "\n"
        "FO101 toy-item [*] (high): `é.item()` waits\n"
        " --> বই, 1:2.py:1:16\n"
        "  |\n"
        "1 | s = 'আমার 漢字', é.item()\n"
        # Wide letters take two columns.
        "  |                  ^^^^^^^^\n"
        "  |\n"
        "help: read it rarely\n"
        "fix: Read it later\n"
        "\n"
    )


def test_colour_only_where_it_is_wanted(result: CheckResult) -> None:
    for name in ("full", "concise"):
        coloured = _render(result, name, colour=True)
        assert "\x1b[" in coloured
        assert re.sub(r"\x1b\[\d+m", "", coloured) == _render(result, name)


def test_source_cannot_steer_the_terminal(project: Path) -> None:
    (project / "a.py").write_text("s = '\x1b[2J\u202e', x.item()\n", encoding="utf-8")
    text = _render(check_paths(Request()).result, "full")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_json_has_ruff_s_keys(result: CheckResult, project: Path) -> None:
    items = json.loads(_render(result, "json"))
    assert [item["code"] for item in items] == ["FO101", "FO105", "FO101"]
    assert items[0] == {
        "cell": None,
        "code": "FO101",
        "name": "toy-item",
        "severity": "high",
        "filename": str(project / "a.py"),
        "location": {"row": 2, "column": 11},
        "end_location": {"row": 2, "column": 19},
        "message": "`x.item()` waits",
        "url": None,
        "noqa_row": 2,
        "fix": {
            "applicability": "safe",
            "message": "Read it later",
            "edits": [{"content": "", "location": {"row": 2, "column": 12}, "end_location": {"row": 2, "column": 19}}],
        },
    }
    assert _render(EMPTY, "json") == "[]\n"


def test_github(result: CheckResult) -> None:
    lines = _render(result, "github").splitlines()
    assert lines == [
        "::error title=flatout (FO101),file=a.py,line=2,endLine=2,col=11,endColumn=19"
        "::a.py:2:11: FO101 [*] `x.item()` waits%0A  help: read it rarely",
        "::notice title=flatout (FO105),file=a.py,line=4,endLine=4,col=1,endColumn=6::a.py:4:1: FO105 `risky` is a toy",
        "::error title=flatout (FO101),file=বই%2C 1%3A2.py,line=1,endLine=1,col=16,endColumn=24"
        "::বই, 1:2.py:1:16: FO101 [*] `é.item()` waits%0A  help: read it rarely",
        *(line for line in lines if "bad.py" in line),
    ]
    assert lines[3].startswith("::error title=flatout,file=bad.py::bad.py: not valid Python")


def test_gitlab(result: CheckResult, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = json.loads(_render(result, "gitlab"))
    assert [item["severity"] for item in items] == ["major", "info", "major"]
    assert items[0]["location"] == {"path": "a.py", "lines": {"begin": 2, "end": 2}}
    assert all(item["description"] and item["check_name"] for item in items)
    monkeypatch.setenv("CI_PROJECT_DIR", str(project.parent))
    assert json.loads(_render(result, "gitlab"))[0]["location"]["path"] == "project/a.py"


def test_gitlab_knows_a_finding_again(project: Path) -> None:
    def prints(text: str) -> list[str]:
        (project / "a.py").write_text(text)
        found = json.loads(_render(check_paths(Request()).result, "gitlab"))
        return [item["fingerprint"] for item in found]

    first = prints("x.item()\ny.item()\n")
    assert prints("# more\n\nx.item()\ny.item()\n") == first
    twice = prints("x.item()\nx.item()\n")
    assert len(set(twice)) == 2
    assert twice[0] == first[0]


def test_junit(result: CheckResult) -> None:
    root = ElementTree.fromstring(_render(result, "junit"))
    assert root.attrib == {"name": "flatout", "tests": "4", "failures": "3", "errors": "1"}
    assert [suite.attrib["name"] for suite in root] == ["a.py", "bad.py", "বই, 1:2.py"]
    assert [suite.attrib["failures"] for suite in root] == ["2", "0", "1"]
    failure = root[0][0][0]
    assert failure.attrib == {"type": "high", "message": "`x.item()` waits"}
    assert failure.text == "a.py:2:11: `x.item()` waits\nhelp: read it rarely"
    assert ElementTree.fromstring(_render(EMPTY, "junit")).attrib["tests"] == "1"


def test_junit_is_xml_whatever_the_source_holds(project: Path) -> None:
    (project / "<&\"'>.py").write_text("x['\\x01', '<&\">'].item()\ny['\x01\x1b'].item()\n")
    root = ElementTree.fromstring(_render(check_paths(Request()).result, "junit"))
    assert root[0].attrib["name"] == "<&\"'>.py"
    assert root[0][0][0].attrib["message"] == "`x['\\x01', '<&\">'].item()` waits"


# What the schema of SARIF 2.1.0 requires of the objects that are used here.
_REQUIRED = {
    "": {"version", "runs"},
    "run": {"tool"},
    "driver": {"name"},
    "rules": {"id"},
    "results": {"message"},
    "fixes": {"artifactChanges"},
    "artifactChanges": {"artifactLocation", "replacements"},
    "replacements": {"deletedRegion"},
    "invocations": {"executionSuccessful"},
    "toolExecutionNotifications": {"message"},
}


def _objects(value: Any, key: str) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        return [found for item in value for found in _objects(item, key)]
    if not isinstance(value, dict):
        return []
    return [(key, value), *(found for name, item in value.items() for found in _objects(item, name))]


def test_sarif(result: CheckResult) -> None:
    document = json.loads(_render(result, "sarif"))
    for key, found in _objects(document, ""):
        assert _REQUIRED.get({"runs": "run"}.get(key, key), set()) <= found.keys()
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == ["FO101", "FO105"]
    assert [driver["rules"][one["ruleIndex"]]["id"] for one in run["results"]] == ["FO101", "FO105", "FO101"]
    assert [one["level"] for one in run["results"]] == ["error", "note", "error"]
    place = run["results"][2]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "%E0%A6%AC%E0%A6%87%2C%201%3A2.py"
    assert place["region"] == {"startLine": 1, "startColumn": 16, "endLine": 1, "endColumn": 24}
    (fix,) = run["results"][0]["fixes"]
    (replacement,) = fix["artifactChanges"][0]["replacements"]
    assert replacement["insertedContent"] == {"text": ""}
    assert not run["invocations"][0]["executionSuccessful"]
    assert "bad.py" in str(run["invocations"][0]["toolExecutionNotifications"])
    assert json.loads(_render(EMPTY, "sarif"))["runs"][0]["invocations"][0]["executionSuccessful"]


def test_own_json(result: CheckResult) -> None:
    report = json.loads(json_text(check_report(result)))
    assert report["schema"] == "flatout.check/1"
    assert list(report) == ["schema", "flatout", "torch", "files_checked", "findings", "unreadable"]
    assert (report["torch"], report["files_checked"]) == (None, 4)
    assert [found["code"] for found in report["findings"]] == ["FO101", "FO105", "FO101"]
    assert report["findings"][0]["remedy"] == {"text": "read it rarely", "speedup": None, "safe": True}
    assert [one["file"] for one in report["unreadable"]] == ["bad.py"]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_is_no_error_in_any_format(name: str) -> None:
    text = _render(EMPTY, name)
    assert not text or text.endswith("\n")


def test_statistics(result: CheckResult) -> None:
    assert statistics(result.diagnoses, False) == ["2  FO101  [*]  toy-item", "1  FO105  [ ]  toy-names"]
    assert statistics(result.diagnoses, True)[1] == "1  FO105  [*]  toy-names"
    assert statistics([], False) == []


def test_summary(result: CheckResult) -> None:
    assert summary(EMPTY, unsafe=False) == ["no GPU mistakes found in 3 files"]
    assert summary(EMPTY, unsafe=False, fixed=1) == ["1 GPU mistake found in 3 files, all fixed"]
    assert summary(result, unsafe=False) == [
        "3 GPU mistakes found in 4 files",
        "[*] 2 can be fixed with --fix (1 more with --unsafe-fixes)",
    ]
    assert summary(result, unsafe=True, fixed=2) == [
        "5 GPU mistakes found in 4 files: 2 fixed, 3 left",
        "[*] 3 can be fixed with --fix",
    ]
