from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.check.versions import TorchVersion, asked_in, lowest, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.6", (2, 6)),
        ("2.6.0+cu124", (2, 6)),
        ("v2.10.1", (2, 10)),
        ("2", (2, 0)),
        ("2.7.0.dev20250101", (2, 7)),
        ("2.*", (2, 0)),
        (" 1.13.1 ", (1, 13)),
        ("new", None),
        ("", None),
    ],
)
def test_parse_version(text: str, version: TorchVersion | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("conditions", "version"),
    [
        (">=2.1,<3", (2, 1)),
        ("<3, >=2.1", (2, 1)),
        ("==2.6.0", (2, 6)),
        ("==2.6.*", (2, 6)),
        ("===2.6.0", (2, 6)),
        ("~=2.3.1", (2, 3)),
        (">2.0", (2, 0)),
        ("^2.1", (2, 1)),
        ("~2.1", (2, 1)),
        ("2.4.*", (2, 4)),
        ("=2.1.0=py3.9_cuda11.8_0", (2, 1)),
        (">=2.1,!=2.2.0", (2, 1)),
        (">=1.13,>=2.0", (2, 0)),
        ("^1.13 || ^2.0", (1, 13)),
        ("<2.5", None),
        ("!=2.0", None),
        ("", None),
        ("*", None),
        ("@ https://download.pytorch.org/whl/cu124/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl", (2, 6)),
        ("@ git+https://github.com/pytorch/pytorch@v2.6.0", None),
    ],
)
def test_lowest(conditions: str, version: TorchVersion | None) -> None:
    assert lowest(conditions) == version


@given(st.text(max_size=40))
def test_no_text_is_too_odd(text: str) -> None:
    assert lowest(text) is None or len(lowest(text) or ()) == 2


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("pyproject.toml", "[project]\ndependencies = ['numpy', 'torch>=2.1']", (2, 1)),
        ("pyproject.toml", "[project]\ndependencies = ['torch>=2.2; python_version<\"3.9\"']", (2, 2)),
        ("pyproject.toml", "[project.optional-dependencies]\na = ['torch[x]>=2.3']\nold = ['torch==1.13.1']", (1, 13)),
        ("pyproject.toml", "[dependency-groups]\ndev = ['torch>=2.4', {include-group = 'x'}]", (2, 4)),
        ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '^2.1'", (2, 1)),
        ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = {version = '~2.2', source = 'x'}", (2, 2)),
        ("pyproject.toml", "[tool.poetry.group.gpu.dependencies]\ntorch = [{version = '^2.3'}, {url = 'x'}]", (2, 3)),
        ("pyproject.toml", "[project]\ndependencies = ['torch', 'torchvision>=0.15', 'torch-geometric>=2.0']", None),
        ("pyproject.toml", "[project]\ndependencies = 'torch>=2'", None),
        ("pyproject.toml", "torch = [", None),
        ("requirements.txt", "numpy\n# torch==1.0\ntorch==2.5.1+cu121 --index-url https://10.0.0.1/cu121\n", (2, 5)),
        ("requirements.txt", "torchvision==0.20\ntorch_scatter==2.0\ntorch.x==1\n", None),
        ("requirements-gpu.txt", "Torch >= 2.0 # c\r\n", (2, 0)),
        ("requirements/base.txt", "torch~=2.4", (2, 4)),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.12\n", (1, 12)),
        ("setup.py", "setup(install_requires=['numpy', \"torch>=2.0,<3\"], name='torch')", (2, 0)),
        ("environment.yml", "dependencies:\n  - pytorch=2.1\n  - pip:\n    - timm\n", (2, 1)),
        ("environment.yaml", "dependencies:\n  - pytorch::pytorch==2.2.0=py3.10_cpu\n  - pytorch-cuda=12.1\n", (2, 2)),
        ("environment.yml", "dependencies:\n  - pip:\n    - 'torch==2.3.0'\n", (2, 3)),
        ("uv.lock", 'name = "torch"\nversion = "2.6.0+cpu"\n\n[[package]]\nname = "torch"\nversion = "2.5.0"', (2, 5)),
        ("poetry.lock", '[[package]]\r\nname = "torch"\r\nversion = "2.4.1"\r\n', (2, 4)),
        ("uv.lock", '[[package]]\nname = "torchvision"\nversion = "0.20.0"\n', None),
    ],
)  # fmt: skip
def test_what_a_file_asks_for(tmp_path: Path, name: str, text: str, version: TorchVersion | None) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    assert asked_in(tmp_path) == version


def test_what_is_declared_goes_before_what_is_locked(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text('name = "torch"\nversion = "2.6.0"\n')
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['torch']")
    assert asked_in(tmp_path) == (2, 6)
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['torch>=2.1']")
    assert asked_in(tmp_path) == (2, 1)


def test_bytes_that_are_no_text_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_bytes(b"\xff\xfe\x00torch==2.0")
    (tmp_path / "setup.py").mkdir()
    assert asked_in(tmp_path) is None
