"""Users' own GPUs in TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatout.errors import UnreadableFileError
from flatout.gpu import all_gpus, find, user_file

OWN = """
[[gpu]]
name = "NVIDIA H800"
compute_capability = "9.0"
multiprocessors = 132
memory_gib = 80
memory_gb_per_second = 3350
tflops = { fp32 = 67, bf16 = 989.4 }
[gpu.sources]
default = "the vendor's quote"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gpus.toml"


@pytest.fixture(autouse=True)
def no_file_of_the_person_at_the_keyboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_file_by_path(file: Path) -> None:
    file.write_text(OWN)
    gpu = find("h800", file)
    assert (gpu.name, gpu.multiprocessors, gpu.rates.bf16) == ("NVIDIA H800", 132, 989.4e12)
    assert gpu.usable_is_estimated
    assert gpu.source("multiprocessors").title == "the vendor's quote"
    assert gpu.source("usable_bytes").key == "rule"
    assert all_gpus(file)[0] is not None


def test_the_file_of_the_user_is_found_by_itself() -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text(OWN)
    assert find("NVIDIA H800").label == "NVIDIA H800"


def test_own_gpus_come_before_the_table(file: Path) -> None:
    file.write_text('[[gpu]]\nname = "NVIDIA H100 80GB HBM3"\nlike = "h100"\nusable_mib = 70000\n')
    assert find("NVIDIA H100 80GB HBM3", file).usable_bytes == 70_000 * 1024**2


def test_like_takes_everything_but_what_is_given(file: Path) -> None:
    file.write_text('[[gpu]]\nname = "RTX 4090 48 GB"\nlike = "4090"\nmemory_gib = 48\n')
    gpu, base = find("RTX 4090 48 GB", file), find("4090")
    assert gpu.memory_bytes == 48 * 1024**3
    assert gpu.usable_is_estimated
    assert gpu.usable_bytes > base.usable_bytes
    for field in ("compute_capability", "multiprocessors", "boost_hz", "l2_bytes", "pcie_lanes", "tdp_watts"):
        assert getattr(gpu, field) == getattr(base, field)
    assert gpu.rates.bf16 == pytest.approx(base.rates.bf16)
    assert "RTX 4090" in gpu.source("l2_bytes").title


def test_a_slice_of_a_gpu_has_its_share_of_the_rates(file: Path) -> None:
    file.write_text(
        '[[gpu]]\nname = "A100 MIG 1g.10gb"\nlike = "a100"\nmultiprocessors = 14\nmemory_gib = 10\nusable_mib = 9728'
    )
    gpu = find("a100 mig 1g.10gb", file)
    assert gpu.rates.bf16 == pytest.approx(312e12 * 14 / 108)
    assert gpu.usable_bytes == 9728 * 1024**2


def test_like_may_name_a_row_above(file: Path) -> None:
    file.write_text(OWN + '\n[[gpu]]\nname = "H800 slow"\nlike = "h800"\ntdp_watts = 350\n')
    assert find("h800 slow", file).tdp_watts == 350


@pytest.mark.parametrize(
    ("change", "key", "rule"),
    [
        (("132", '"many"'), "multiprocessors", "number above 0"),
        (("132", "131.5"), "multiprocessors", "whole number"),
        (("80\n", "-80\n"), "memory_gib", "number above 0"),
        (('"9.0"', '"9.7"'), "compute_capability", "must be one of"),
        (('"9.0"', "9.0"), "compute_capability", "must be text"),
        (("memory_gib = 80", "memory_gb = 80"), "memory_gb", "no such key"),
        (("memory_gib = 80\n", ""), "memory_gib", "is missing"),
        (("memory_gib = 80", "memory_gib = 80\nusable_mib = 90000"), "usable_mib", "more than memory_gib"),
        (("memory_gib = 80", 'memory_gib = 80\npcie = "fast"'), "pcie", "4.0 x16"),
        (("memory_gib = 80", 'memory_gib = 80\nlike = "h99"'), "like", "h99"),
        (("memory_gib = 80", "memory_gib = 80\nwords = 3"), "words", "list of texts"),
        (("memory_gib = 80", 'memory_gib = 80\nfp32_accumulate = "some"'), "fp32_accumulate", "full"),
        (("fp32 = 67, ", ""), "tflops", "at least fp32"),
        (("bf16", "bfloat16"), "tflops.bfloat16", "must be one of"),
        (("tflops = { fp32 = 67, bf16 = 989.4 }\n", ""), "tflops", "is missing"),
        (("default =", "power ="), "sources.power", "names no number"),
    ],
)
def test_a_broken_rule_names_file_gpu_key_and_rule(file: Path, change: tuple[str, str], key: str, rule: str) -> None:
    assert change[0] in OWN
    file.write_text(OWN.replace(*change, 1))
    with pytest.raises(UnreadableFileError) as caught:
        find("h800", file)
    message = str(caught.value)
    assert str(file) in message
    assert '"NVIDIA H800"' in message
    assert f" {key}: " in message
    assert rule in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "rule"),
    [("", "one [[gpu]] table or more"), ("gpu = 3", "one [[gpu]] table or more"), ("[[gpu", "is not TOML")],
)
def test_a_file_that_is_no_table_of_gpus(file: Path, content: str, rule: str) -> None:
    file.write_text(content)
    with pytest.raises(UnreadableFileError) as caught:
        find("h100", file)
    assert rule in str(caught.value)


def test_an_absent_file_and_bytes_that_are_no_text(file: Path) -> None:
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        find("h100", file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableFileError, match="UTF-8"):
        find("h100", file)
