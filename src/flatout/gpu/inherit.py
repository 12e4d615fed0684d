"""`like = "..."` in a user's file: a row that starts from a GPU that is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatout.gpu.capability import CONTEXT_RANGE_BYTES
from flatout.gpu.specification import GPU

MIB, GIB = 1024**2, 1024**3


def row_of(base: GPU, own: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `base` in the words of a file, with the keys of `own` put over it.

    A changed `memory_gib` without `usable_mib` drops the measured usable memory of `base`: it was that of another size.
    Rates scale with `multiprocessors` and `boost_mhz` unless `own` gives them, so a slice is told by its share.
    """
    major, minor = base.compute_capability
    row: dict[str, Any] = {
        "compute_capability": f"{major}.{minor}",
        "multiprocessors": base.multiprocessors,
        "memory_gib": base.memory_bytes / GIB,
        "memory_gb_per_second": base.memory_bandwidth_bytes_per_second / 1e9,
    }
    if "memory_gib" not in own:
        row["usable_mib"] = base.usable_bytes / MIB
        row["usable_is_estimated"] = base.usable_is_estimated
    optional = {
        "boost_mhz": base.boost_hz and base.boost_hz / 1e6,
        "l2_mib": base.l2_bytes and base.l2_bytes / MIB,
        "nvlink_gb_per_second": base.nvlink_bytes_per_second and base.nvlink_bytes_per_second / 1e9,
        "pcie": base.pcie_generation and f"{base.pcie_generation}.0 x{base.pcie_lanes}",
        "tdp_watts": base.tdp_watts,
    }
    row.update({key: value for key, value in optional.items() if value is not None})
    if base.context_range_bytes != CONTEXT_RANGE_BYTES:
        row["context_mib"] = base.context_bytes / MIB
    if "fp32_accumulate" not in own:
        row["tflops"] = _scaled_tflops(base, own)
    row["sources"] = {"default": f'like "{base.label}"'}
    return {**row, **own}


def _scaled_tflops(base: GPU, own: Mapping[str, Any]) -> dict[str, float]:
    share = _ratio(own.get("multiprocessors"), base.multiprocessors) * _ratio(
        own.get("boost_mhz"), base.boost_hz and base.boost_hz / 1e6
    )
    names = base.rates.__struct_fields__
    return {name: rate / 1e12 * share for name in names if (rate := getattr(base.rates, name)) is not None}


def _ratio(own: object, base: float | None) -> float:
    # Wrong types are left to the row's own check, which names the key.
    return float(own) / base if isinstance(own, int | float) and own > 0 and base else 1.0
