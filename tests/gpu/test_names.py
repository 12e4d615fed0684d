"""Names as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatout.errors import UnknownGPUError
from flatout.gpu import GPU, all_gpus, find
from flatout.gpu.table import built_in

WRITTEN = [
    ("h100", "H100 SXM 80 GB"),
    ("H100-SXM", "H100 SXM 80 GB"),
    ("h100 sxm5 80gb", "H100 SXM 80 GB"),
    ("NVIDIA H100 80GB HBM3", "H100 SXM 80 GB"),
    ("NVIDIA H100 PCIe", "H100 PCIe 80 GB"),
    ("h100 pci-e", "H100 PCIe 80 GB"),
    ("h100nvl", "H100 NVL 94 GB"),
    ("h200", "H200 SXM 141 GB"),
    ("a100", "A100 SXM 80 GB"),
    ("a100-40gb", "A100 SXM 40 GB"),
    ("A100 40G", "A100 SXM 40 GB"),
    ("a100 80", "A100 SXM 80 GB"),
    ("A100 80GB PCIe", "A100 PCIe 80 GB"),
    ("A100-SXM4-80GB", "A100 SXM 80 GB"),
    ("a100sxm80gb", "A100 SXM 80 GB"),
    ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40 GB"),
    ("v100", "V100 SXM 16 GB"),
    ("v100 32gb", "V100 SXM 32 GB"),
    ("Tesla V100-PCIE-16GB", "V100 PCIe 16 GB"),
    ("t4", "T4"),
    ("Tesla T4", "T4"),
    ("nvidia-t4", "T4"),
    ("rtx 4090", "RTX 4090"),
    ("rtx4090", "RTX 4090"),
    ("RTX_4090", "RTX 4090"),
    ("4090", "RTX 4090"),
    ("NVIDIA GeForce RTX 4090", "RTX 4090"),
    ("3090", "RTX 3090"),
    ("3080ti", "RTX 3080 Ti"),
    ("RTX4070TiSuper", "RTX 4070 Ti SUPER"),
    ("4070", "RTX 4070"),
    ("4060 ti 16gb", "RTX 4060 Ti 16 GB"),
    ("NVIDIA GeForce RTX 4060 Ti", "RTX 4060 Ti 8 GB"),
    ("1080 ti", "GTX 1080 Ti"),
    ("titanrtx", "TITAN RTX"),
    ("titan v", "TITAN V"),
    ("l4", "L4"),
    ("l40", "L40"),
    ("L40S", "L40S"),
    ("a10", "A10"),
    ("a10g", "A10G"),
    ("rtx a6000", "RTX A6000"),
    ("rtx 6000 ada", "RTX 6000 Ada"),
    ("6000ada", "RTX 6000 Ada"),
    ("quadro rtx 6000", "Quadro RTX 6000"),
    ("rtx pro 6000", "RTX PRO 6000 Blackwell"),
    ("b200", "B200 180 GB"),
    ("gb200", "GB200 186 GB"),
]


@pytest.mark.parametrize(("written", "label"), WRITTEN)
def test_a_name_as_written_means_the_gpu(written: str, label: str) -> None:
    assert find(written).label == label


@pytest.mark.parametrize("gpu", built_in(), ids=lambda gpu: gpu.label)
def test_a_label_means_its_gpu_and_a_driver_name_one_of_that_name(gpu: GPU) -> None:
    assert find(gpu.label) is gpu
    assert find(gpu.name).name == gpu.name


@given(st.sampled_from(built_in()), st.sampled_from(["", " ", "-", "_", "  "]), st.booleans())
def test_case_dashes_and_the_vendor_do_not_matter(gpu: GPU, joint: str, upper: bool) -> None:
    words = gpu.label.split()
    separated = f"NVIDIA{joint or ' '}{(joint or ' ').join(words)}"
    assert find(separated.upper() if upper else separated.lower()) is gpu


@given(st.text(max_size=30))
def test_any_text_gives_a_gpu_or_the_one_error(text: str) -> None:
    with contextlib.suppress(UnknownGPUError):
        assert isinstance(find(text), GPU)


@pytest.mark.parametrize(
    ("unknown", "nearest"),
    [
        ("h1000", "H100 SXM 80 GB"),
        ("l40x", "L40S"),
        ("rtx 4095", "RTX 4090"),
        ("a100 96gb", "A100 SXM 80 GB"),
        ("4070 pro", "RTX 4070"),
    ],
)
def test_an_unknown_name_lists_near_ones_and_exits_2(unknown: str, nearest: str) -> None:
    with pytest.raises(UnknownGPUError, match=nearest) as caught:
        find(unknown)
    assert caught.value.exit_code == 2
    assert f'"{unknown}"' in str(caught.value)


def test_a_name_that_three_generations_share_is_not_guessed() -> None:
    with pytest.raises(UnknownGPUError) as caught:
        find("rtx 6000")
    for label in ("RTX 6000 Ada", "RTX PRO 6000 Blackwell", "Quadro RTX 6000"):
        assert label in str(caught.value)


@pytest.mark.parametrize("nothing", ["", "  ", "nvidia", "gpu", "80gb", "rtx", "sxm"])
def test_words_that_name_no_model_are_unknown(nothing: str) -> None:
    with pytest.raises(UnknownGPUError):
        find(nothing)


def test_labels_are_unique() -> None:
    labels = [gpu.label for gpu in all_gpus()]
    assert len(labels) == len(set(labels))
