"""The table: sound, sourced, and free of the mistakes that other tables have."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from flatout.gpu import GPU, find, limits
from flatout.gpu.table import built_in
from flatout.gpu.usable import estimate_usable_bytes

GIB, MIB = 1024**3, 1024**2
WORDS = {"name", "label", "family", "words", "compute_capability", "usable_is_estimated", "sources"}


def _each(wanted: Callable[[GPU], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("gpu", [gpu for gpu in built_in() if wanted(gpu)], ids=lambda gpu: gpu.label)


ALL = _each(lambda gpu: True)


def test_about_seventy_gpus_are_known() -> None:
    assert len(built_in()) >= 60


@ALL
def test_every_number_has_a_source_with_a_title(gpu: GPU) -> None:
    for field in set(gpu.__struct_fields__) - WORDS:
        if getattr(gpu, field) is not None:
            assert gpu.source(field).title, field


@ALL
def test_numbers_are_in_their_units(gpu: GPU) -> None:
    assert 0.85 * gpu.memory_bytes < gpu.usable_bytes < gpu.memory_bytes
    assert 200e9 < gpu.memory_bandwidth_bytes_per_second < 10e12
    assert 10 <= gpu.multiprocessors <= 192
    assert gpu.l2_bytes is None or 2 * MIB <= gpu.l2_bytes <= 128 * MIB
    assert gpu.boost_hz is None or 1e9 < gpu.boost_hz < 3e9
    assert gpu.tdp_watts is None or 50 < gpu.tdp_watts <= 1200
    assert gpu.context_range_bytes[0] <= gpu.context_bytes <= gpu.context_range_bytes[1]
    assert limits(gpu.compute_capability).warp_size == 32


@ALL
def test_rates_stand_in_the_order_that_hardware_has(gpu: GPU) -> None:
    rates = gpu.rates
    assert 5e12 < rates.fp32 < 130e12
    assert rates.fp16 is None or rates.fp16 >= rates.fp32
    assert rates.bf16 in (None, rates.fp16)
    assert rates.tf32 is None or rates.tf32 == pytest.approx((rates.bf16 or 0) / 2, rel=0.015)
    assert rates.fp8 is None or rates.fp8 == pytest.approx(2 * (rates.bf16 or 0), rel=0.015)
    assert (rates.bf16 is not None) == (gpu.compute_capability >= (8, 0))
    assert (rates.fp8 is not None) == (gpu.compute_capability >= (8, 9))


# No clock is known of some, and of the Hopper modules it is the tensor cores' clock.
@_each(lambda gpu: gpu.boost_hz is not None and gpu.family not in ("h100", "h200"))
def test_fp32_is_what_clock_and_cores_give(gpu: GPU) -> None:
    cores = 64 if gpu.compute_capability in ((6, 0), (7, 0), (7, 5), (8, 0)) else 128
    assert gpu.rates.fp32 == pytest.approx(2 * cores * gpu.multiprocessors * (gpu.boost_hz or 0), rel=0.02)


@_each(lambda gpu: not gpu.usable_is_estimated)
def test_reported_memory_is_near_the_rule_that_fills_the_gaps(gpu: GPU) -> None:
    ecc_takes_a_sixteenth = gpu.family in ("t4", "l4", "l40s", "a10", "a10g", "a40", "p40")
    nominal = gpu.memory_bytes * 15 // 16 if ecc_takes_a_sixteenth else gpu.memory_bytes
    # Older cards were reported under drivers that kept less for themselves.
    tolerance = 0.045 if gpu.compute_capability < (8, 0) else 0.02
    assert estimate_usable_bytes(nominal) == pytest.approx(gpu.usable_bytes, rel=tolerance)


def test_gpus_can_be_keys_and_go_through_json() -> None:
    gpu = find("h100")
    assert {gpu: 1}[find("H100 SXM")] == 1
    assert msgspec.json.decode(msgspec.json.encode(gpu), type=GPU) == gpu


# Mistakes found in public tables; each must not be ours.


def test_v100_boards_have_their_own_power_limits() -> None:
    assert find("v100 sxm").tdp_watts == 300
    assert find("v100 pcie").tdp_watts == 250


def test_a100_pcie_80_has_40_mib_of_l2() -> None:
    assert find("a100 pcie 80gb").l2_bytes == 40 * MIB


def test_l4_has_58_multiprocessors() -> None:
    assert find("l4").multiprocessors == 58


def test_l4_has_its_own_bandwidth_and_dense_rates() -> None:
    l4 = find("l4")
    assert l4.memory_bandwidth_bytes_per_second == pytest.approx(300e9, rel=0.01)
    assert l4.rates.bf16 == 121e12
    assert l4.rates.fp64 == pytest.approx(0.47e12)


def test_l40s_has_96_mib_of_l2_and_350_watts() -> None:
    assert (find("l40s").l2_bytes, find("l40s").tdp_watts) == (96 * MIB, 350)


def test_l40s_l40_and_l4_are_three_gpus() -> None:
    assert [find(name).rates.bf16 for name in ("NVIDIA L40S", "NVIDIA L40", "NVIDIA L4")] == [
        362.05e12,
        181.05e12,
        121e12,
    ]


def test_a10g_is_not_an_a10() -> None:
    a10g, a10 = find("NVIDIA A10G"), find("NVIDIA A10")
    assert (a10g.multiprocessors, a10.multiprocessors) == (80, 72)
    assert a10g.rates.bf16 == 70e12
    assert a10.rates.bf16 == pytest.approx(125e12, rel=0.001)


def test_b200_is_two_dies() -> None:
    b200 = find("b200")
    assert b200.memory_bytes == 180 * GIB
    assert 7e12 < b200.memory_bandwidth_bytes_per_second <= 8e12
    assert (b200.l2_bytes or 0) > 120 * MIB


def test_h200_has_4800_gb_per_second_and_dense_rates() -> None:
    h200 = find("NVIDIA H200")
    assert h200.memory_bandwidth_bytes_per_second == 4.8e12
    assert h200.rates.bf16 == 989.4e12


def test_h100_is_dense_and_its_ordinary_cores_are_not_halved() -> None:
    h100 = find("NVIDIA H100 80GB HBM3")
    assert (h100.rates.bf16, h100.rates.fp8, h100.rates.fp32, h100.rates.fp64) == (989.4e12, 1978.9e12, 67e12, 33.5e12)


def test_fp64_on_ordinary_and_tensor_cores_are_two_numbers() -> None:
    rates = find("h100").rates
    assert rates.fp64_tensor == 2 * (rates.fp64 or 0)


def test_h100_nvl_is_one_gpu_not_a_pair() -> None:
    assert find("h100 nvl").rates.bf16 == pytest.approx(835.5e12)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("4090", 165.2),
        ("4080", 97.5),
        ("3090", 71.2),
        ("2080 ti", 53.8),
        ("a40", 149.7),
        ("a6000", 154.8),
        ("5090", 209.5),
    ],
)
def test_fp16_is_the_tensor_rate_with_fp32_accumulation(name: str, tflops: float) -> None:
    assert find(name).rates.fp16 == pytest.approx(tflops * 1e12, rel=0.001)


@pytest.mark.parametrize("name", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA H200"])
def test_names_that_drivers_report_are_found(name: str) -> None:
    assert find(name).name == name


def test_ten_point_x_multiprocessors_are_not_h100s() -> None:
    assert find("gb200").rates.bf16 == 2500e12
    assert find("b200").rates.bf16 == 2250e12
