"""The scripts of tests/scripts run on plain PyTorch, on a CPU: what a prediction makes of them is not their fault."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent / "scripts"
CATALOGUE: dict[str, dict[str, Any]] = json.loads((FOLDER / "catalogue.json").read_text("utf-8"))

# Ways through a script that its tiny arguments do not take.
VARIANTS = [
    ("checkpointing.py", ["--how", "reentrant"]),
    ("checkpointing.py", ["--how", "sequential"]),
    ("compiled.py", ["--compile-loss", "--dynamic"]),
    ("hf_trainer.py", ["--model", "bert", "--gradient-checkpointing"]),
    ("loader_workers.py", ["--start-method", "spawn"]),
    ("offload_saved.py", ["--how", "hooks"]),
    ("oom_halving.py", ["--catch", "words"]),
    ("swa.py", ["--ema"]),
]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("script", "extra"),
    [*((name, []) for name in CATALOGUE), *VARIANTS],
    ids=lambda value: value.removesuffix(".py") if isinstance(value, str) else "".join(value).replace("--", "-"),
)
def test_script_runs_on_a_cpu(tmp_path: Path, script: str, extra: list[str]) -> None:
    for package in CATALOGUE[script].get("needs", []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{script} needs {package}, which is not installed")
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, str(FOLDER / script), *CATALOGUE[script]["tiny"], *extra],
        cwd=tmp_path,
        env={**os.environ, **hidden},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    assert "nan" not in ran.stdout.lower()


def test_every_script_is_in_the_catalogue_and_on_the_page() -> None:
    scripts = sorted(path.name for path in FOLDER.glob("*.py"))
    assert scripts == sorted(CATALOGUE)
    page = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in scripts if f"`{name}`" not in page] == []


def test_scripts_know_nothing_of_flatout() -> None:
    assert [path.name for path in FOLDER.glob("*.py") if "flatout" in path.read_text("utf-8")] == []
