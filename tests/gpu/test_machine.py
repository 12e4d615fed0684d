from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flatout.gpu import find
from flatout.gpu.machine import own_gpu

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for nvidia-smi is a shell script")


def stand_in(folder: Path, lines: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/nowhere")


def test_the_first_gpu_of_the_machine(tmp_path: Path) -> None:
    stand_in(tmp_path, "echo 'NVIDIA H100 PCIe'\necho 'Tesla T4'")
    assert own_gpu() == find("H100 PCIe")


@pytest.mark.parametrize("lines", ["echo 'NVIDIA Something 9000'", "echo 'No devices were found'", "exit 9", ""])
def test_what_cannot_be_known_is_none(tmp_path: Path, lines: str) -> None:
    stand_in(tmp_path, lines)
    assert own_gpu() is None


def test_without_a_driver_there_is_none() -> None:
    assert own_gpu() is None
