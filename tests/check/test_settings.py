from __future__ import annotations

from pathlib import Path

import pytest

from flatout.check.projects import Projects
from flatout.check.settings import Settings, combine, parse_settings, read_settings
from flatout.errors import UsageError


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_keys(project: Path) -> None:
    path = _write(
        project,
        """
        [tool.flatout.check]
        select = ["FO1"]
        extend-select = ["FO201"]
        ignore = ["FO105"]
        exclude = ["old"]
        extend-exclude = ["*.gen.py"]
        fixable = ["FO1"]
        unfixable = ["FO101"]
        torch = "2.6"
        [tool.flatout.check.per-file-ignores]
        "scripts/*.py" = ["FO101"]
        """,
    )
    settings = read_settings(path)
    assert settings is not None
    assert settings.rules == {"FO101", "FO201"}
    assert settings.torch == (2, 6)
    assert settings.unfixed == {"FO101", "FO201"}
    assert settings.excluded.match(str(project / "old" / "a.py"))
    assert settings.excluded.match(str(project / "src" / "a.gen.py"))
    assert not settings.excluded.match(str(project / "build" / "a.py"))  # exclude replaces what is excluded by itself
    assert settings.rules_for(str(project / "scripts" / "a.py")) == ("FO201",)
    assert settings.rules_for(str(project / "a.py")) == ("FO101", "FO201")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.flatout.check]\nselct = []", r"pyproject.toml: .* has no key 'selct'; did you mean select\?"),
        ("[tool.flatout.check]\nxyz = 1", r"has no key 'xyz'; there are select,"),
        ("[tool.flatout.check]\nselect = 'FO1'", r"select must be a list of strings"),
        ("[tool.flatout.check]\nignore = [1]", r"ignore must be a list of strings"),
        ("[tool.flatout.check]\nignore = ['FO9']", r"'FO9' is no rule"),
        ("[tool.flatout.check]\nunfixable = ['FO9']", r"'FO9' is no rule"),
        ("[tool.flatout.check]\ntorch = 2.6", r"torch: 2.6 is not a version of PyTorch; write it like \"2.6\""),
        ("[tool.flatout.check]\ntorch = 'new'", r"'new' is not a version"),
        ("[tool.flatout.check]\nper-file-ignores = []", r"per-file-ignores must be a table"),
        ("[tool.flatout.check]\nper-file-ignores = {a = 'FO1'}", r"per-file-ignores must be a list"),
        ("[tool.flatout.check]\nper-file-ignores = {a = ['FO9']}", r"'FO9' is no rule"),
        ("[tool.flatout]\ncheck = 3", r"tool.flatout.check must be a table"),
        ("[tool.flatout.check", r"pyproject.toml: not valid TOML"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(project: Path, text: str, message: str) -> None:
    path = _write(project, text)
    with pytest.raises(UsageError, match=message) as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_does_not_speak_of_flatout_is_not_judged(project: Path) -> None:
    assert read_settings(_write(project, "[tool.other\n")) is None


def test_the_nearest_table_counts(project: Path) -> None:
    _write(project, "[tool.flatout.check]\nselect = ['FO1']\ntorch = '2.4'")
    _write(project / "a", "[project]\nname = 'a'")  # says nothing of flatout
    _write(project / "b", "[tool.flatout.check]\nselect = ['FO8']")
    (project / "b" / "c").mkdir()
    projects = Projects()
    assert projects.of(str(project / "a")).settings.rules == {"FO101", "FO105"}
    assert projects.of(str(project / "b" / "c")).settings.rules == {"FO805"}
    assert projects.of(str(project / "b" / "c")).torch is None
    assert projects.of(str(project / "a")).torch == (2, 4)
    assert projects.of(str(project / "b" / "c")).root == str(project / "b")
    assert Projects(isolated=True).of(str(project / "a")).settings.rules == Settings().rules


def test_nothing_is_read_from_above_the_repository(project: Path) -> None:
    _write(project.parent, "[tool.flatout.check]\nselect = ['FO8']")
    (project.parent / "requirements.txt").write_text("torch==2.4")
    found = Projects().of(str(project))
    assert found.settings.rules == Settings().rules
    assert found.torch is None


def test_the_command_line_goes_before(project: Path) -> None:
    settings = parse_settings({"ignore": ["FO101"], "torch": "2.4", "unfixable": ["FO1"]}, root="", source="a")
    over = parse_settings({"select": ["FO1"], "torch": "2.6"}, root="", source="b")
    both = combine(settings, over)
    assert both.rules == {"FO101", "FO105"}
    assert both.torch == (2, 6)
    assert both.unfixed == both.rules
