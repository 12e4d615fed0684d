"""How fast this machine issues work: measured once, then the same for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from flatout.virtual.calibration import Calibration, calibration, measured


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_it_is_measured_once_in_under_a_second(cache: Path) -> None:
    began = time.thread_time()
    first = calibration()
    assert time.thread_time() - began < 1.0
    assert 0.05 < first.issue_ratio < 50
    assert first.torch_version == torch.__version__
    (file,) = cache.rglob("*.json")
    began = time.thread_time()
    assert calibration() == first
    assert time.thread_time() - began < 0.02
    assert list(cache.rglob("issuing-*")) == [file]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"issue_ratio": "fast"}', b"\xff"])
def test_a_damaged_file_is_measured_anew(cache: Path, content: bytes) -> None:
    calibration()
    (file,) = cache.rglob("*.json")
    file.write_bytes(content)
    assert calibration().issue_ratio > 0
    assert calibration() == calibration()


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("inf")])
def test_a_ratio_that_no_machine_has_is_measured_anew(cache: Path, ratio: float) -> None:
    kept = calibration()
    (file,) = cache.rglob("*.json")
    file.write_text(f'{{"issue_ratio": {ratio}, "processor": "", "torch_version": "", "python_version": ""}}')
    assert calibration().issue_ratio > 0
    assert calibration().processor == kept.processor


def test_without_a_place_to_write_it_is_measured_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert isinstance(calibration(), Calibration)


def test_random_numbers_and_modes_of_the_script_stay() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.no_grad():
        measured()
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(3), expected)
