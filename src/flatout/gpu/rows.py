"""A row of a table file -> `GPU`. The same reading serves flatout's own table and the users' files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flatout.errors import UnreadableFileError
from flatout.gpu.capability import CONTEXT_BYTES, CONTEXT_RANGE_BYTES, known_capabilities
from flatout.gpu.rates import from_clock, has_clock_rates
from flatout.gpu.specification import GPU, ComputeCapability, Rates, Source
from flatout.gpu.usable import estimate_usable_bytes

MIB = 1024**2
GIB = 1024**3
MEGA, GIGA, TERA = 1e6, 1e9, 1e12

_REQUIRED = ("name", "compute_capability", "multiprocessors", "memory_gib", "memory_gb_per_second")
_NUMBERS = (
    *("multiprocessors", "boost_mhz", "memory_gib", "usable_mib", "memory_gb_per_second", "l2_mib"),
    *("nvlink_gb_per_second", "tdp_watts", "context_mib"),
)
_TEXTS = ("name", "label", "family", "compute_capability", "fp32_accumulate", "pcie")
_OTHERS = ("words", "usable_is_estimated", "tflops", "sources", "like")
KEYS = frozenset((*_NUMBERS, *_TEXTS, *_OTHERS))
RATES = Rates.__struct_fields__

# Keys of a row, and the fields of `GPU` that they fill.
_FIELDS = {
    "multiprocessors": ("multiprocessors",),
    "boost_mhz": ("boost_hz",),
    "memory_gib": ("memory_bytes",),
    "usable_mib": ("usable_bytes",),
    "memory_gb_per_second": ("memory_bandwidth_bytes_per_second",),
    "tflops": ("rates",),
    "l2_mib": ("l2_bytes",),
    "nvlink_gb_per_second": ("nvlink_bytes_per_second",),
    "pcie": ("pcie_generation", "pcie_lanes"),
    "tdp_watts": ("tdp_watts",),
    "context_mib": ("context_bytes", "context_range_bytes"),
}


class Row:
    """One `[[gpu]]` of a file. Errors name the file, the row, the key and the rule."""

    def __init__(self, values: Mapping[str, Any], file: Path, index: int) -> None:
        self.values = values
        self.file = file
        name = values.get("name")
        self.title = f'"{name}"' if isinstance(name, str) else f"number {index}"

    def error(self, key: str, rule: str) -> UnreadableFileError:
        return UnreadableFileError(f"{self.file}: gpu {self.title}: {key}: {rule} (docs/gpus.md lists the keys)")

    def check(self) -> None:
        """Raise `UnreadableFileError` for the first key that breaks its rule."""
        values = self.values
        for key in values:
            if key not in KEYS:
                raise self.error(key, f"no such key; known are {', '.join(sorted(KEYS))}")
        for key in _REQUIRED:
            if key not in values:
                raise self.error(key, "is missing and has no default")
        for key in _TEXTS:
            if key in values and not (isinstance(values[key], str) and values[key].strip()):
                raise self.error(key, f"must be text, got {values[key]!r}")
        for key in _NUMBERS:
            if key in values and not _is_positive(values[key]):
                raise self.error(key, f"must be a number above 0, got {values[key]!r}")
        self._check_rest(values)

    def _check_rest(self, values: Mapping[str, Any]) -> None:
        if not isinstance(values["multiprocessors"], int):
            raise self.error("multiprocessors", f"must be a whole number, got {values['multiprocessors']!r}")
        if values.get("fp32_accumulate", "none") not in ("full", "half", "none"):
            raise self.error("fp32_accumulate", f'must be "full", "half" or "none", got {values["fp32_accumulate"]!r}')
        words = values.get("words", [])
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise self.error("words", f"must be a list of texts, got {words!r}")
        if not isinstance(values.get("usable_is_estimated", False), bool):
            raise self.error("usable_is_estimated", "must be true or false")
        if values.get("usable_mib", 0) > values["memory_gib"] * 1024:
            raise self.error("usable_mib", f"is more than memory_gib ({values['memory_gib']} GiB)")
        tflops = values.get("tflops", {"fp32": 1})
        if not isinstance(tflops, dict) or "fp32" not in tflops:
            raise self.error("tflops", "must be a table with at least fp32, e.g. { fp32 = 19.5, bf16 = 312 }")
        for dtype, rate in tflops.items():
            if dtype not in RATES or not _is_positive(rate):
                raise self.error(f"tflops.{dtype}", f"must be one of {', '.join(RATES)}, with a number above 0")
        sources = values.get("sources", {})
        if not (isinstance(sources, dict) and all(isinstance(text, str) for text in sources.values())):
            raise self.error("sources", "must be a table of texts")

    def capability(self) -> ComputeCapability:
        text = self.values["compute_capability"]
        match = re.fullmatch(r"(\d+)\.(\d)", text)
        found = (int(match[1]), int(match[2])) if match else (0, 0)
        if found not in known_capabilities():
            known = ", ".join(f"{major}.{minor}" for major, minor in known_capabilities())
            raise self.error("compute_capability", f'must be one of {known}, as text; got "{text}"')
        return found

    def pcie(self) -> tuple[int | None, int | None]:
        if "pcie" not in self.values:
            return None, None
        match = re.fullmatch(r"(\d)(?:\.0)? ?x(\d+)", self.values["pcie"])
        if match is None:
            raise self.error("pcie", f'must look like "4.0 x16", got "{self.values["pcie"]}"')
        return int(match[1]), int(match[2])

    def rates(self, capability: ComputeCapability) -> Rates:
        values = self.values
        if "tflops" in values:
            return Rates(**{dtype: rate * TERA for dtype, rate in values["tflops"].items()})
        if "fp32_accumulate" in values and "boost_mhz" in values and has_clock_rates(capability):
            return from_clock(
                capability, values["multiprocessors"], values["boost_mhz"] * MEGA, values["fp32_accumulate"]
            )
        raise self.error(
            "tflops", "is missing; give it, or boost_mhz with fp32_accumulate (not for compute capability 9.0 to 10.3)"
        )

    def scaled(self, key: str, unit: float) -> float | None:
        return self.values[key] * unit if key in self.values else None


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12


def gpu_from_row(row: Row, source: Callable[[str], Source]) -> GPU:
    """The GPU of a row. `source` turns a source key of the file into a `Source`.

    Raises `UnreadableFileError` naming the file, the key and the rule.
    """
    row.check()
    values = row.values
    capability = row.capability()
    memory_bytes = int(values["memory_gib"] * GIB)
    measured = row.scaled("usable_mib", MIB)
    context = row.scaled("context_mib", MIB)
    l2_bytes = row.scaled("l2_mib", MIB)
    generation, lanes = row.pcie()
    return GPU(
        name=values["name"],
        label=values.get("label", values["name"]),
        family=values.get("family", values["name"]).lower(),
        words=tuple(values.get("words", ())),
        compute_capability=capability,
        multiprocessors=values["multiprocessors"],
        boost_hz=row.scaled("boost_mhz", MEGA),
        memory_bytes=memory_bytes,
        usable_bytes=estimate_usable_bytes(memory_bytes) if measured is None else int(measured),
        usable_is_estimated=measured is None or values.get("usable_is_estimated", False),
        memory_bandwidth_bytes_per_second=values["memory_gb_per_second"] * GIGA,
        rates=row.rates(capability),
        l2_bytes=None if l2_bytes is None else int(l2_bytes),
        nvlink_bytes_per_second=row.scaled("nvlink_gb_per_second", GIGA),
        pcie_generation=generation,
        pcie_lanes=lanes,
        tdp_watts=row.scaled("tdp_watts", 1.0),
        context_bytes=CONTEXT_BYTES if context is None else int(context),
        context_range_bytes=CONTEXT_RANGE_BYTES if context is None else (int(context), int(context)),
        sources=_sources(row, source, measured is None),
    )


def _sources(row: Row, source: Callable[[str], Source], usable_by_rule: bool) -> tuple[tuple[str, Source], ...]:
    given = dict(row.values.get("sources", {}))
    if usable_by_rule:
        given["usable_mib"] = "rule"
    if "context_mib" not in row.values:
        given["context_mib"] = "context"
    if "tflops" not in row.values:
        given["tflops"] = "clock"
    pairs = {"default": source(given.pop("default", "user"))}
    for key, text in given.items():
        if key not in _FIELDS:
            raise row.error(f"sources.{key}", f"names no number of the row; known are default, {', '.join(_FIELDS)}")
        for field in _FIELDS[key]:
            pairs[field] = source(text)
    return tuple(pairs.items())
