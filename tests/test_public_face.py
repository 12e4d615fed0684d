"""What `import flatout` gives, and what it does not drag in."""

from __future__ import annotations

import subprocess
import sys

import flatout


def test_all_is_sorted_and_true() -> None:
    assert list(flatout.__all__) == sorted(flatout.__all__)
    for name in flatout.__all__:
        assert hasattr(flatout, name)


def test_import_does_not_load_torch_or_numpy() -> None:
    code = "import flatout, sys; print(sorted({'torch', 'numpy', 'typer', 'rich'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_version_is_that_of_the_package() -> None:
    from pathlib import Path

    declared = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{flatout.__version__}"' in declared
