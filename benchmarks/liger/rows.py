"""The published rows: which there are, and how many bytes a stored figure allows."""

from __future__ import annotations

import csv
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
PROVIDERS = ("torch", "huggingface")
GPUS = {
    "NVIDIA A100-SXM4-80GB": "a100-80gb",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100 pcie",
    "NVIDIA GeForce RTX 4090": "rtx 4090",
}


@dataclass(frozen=True)
class Row:
    """One measured peak: `mib` is the stored figure, which has the precision of a float32."""

    kernel: str
    mode: str
    gpu: str
    x_name: str
    x_value: int
    settings: str
    date: str
    mib: float

    @property
    def config(self) -> dict[str, Any]:
        """The script's settings, with this row's value of what was varied."""
        config: dict[str, Any] = json.loads(self.settings)
        config[self.x_name] = self.x_value
        return config

    @property
    def script(self) -> tuple[str, str]:
        """Rows of one kernel and one day come from one process."""
        return self.kernel, self.date

    @property
    def sweep(self) -> tuple[str, str, str]:
        """Rows of one sweep differ in the varied value alone."""
        return self.settings, self.mode, self.x_name

    def is_exact(self, predicted_bytes: int) -> bool:
        """Whether that many bytes are stored as this figure, in every digit."""
        return float32(predicted_bytes / MIB) == float32(self.mib)

    def missing_bytes(self, predicted_bytes: int) -> tuple[float, float]:
        """The least and the most that may lie between the prediction and what was measured before it was rounded."""
        half = MIB * (_next_float32(self.mib) - self.mib) / 2
        return MIB * self.mib - half - predicted_bytes, MIB * self.mib + half - predicted_bytes


def float32(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _next_float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", value))[0] + 1))[0])


def oracle() -> Path:
    """Where the published file is."""
    root = os.environ.get("FLATOUT_ORACLES") or ROOT.parent / "shared" / "oracles"
    return Path(root) / "liger" / "operator_benchmarks.csv"


def read(path: Path) -> list[Row]:
    """The memory rows of plain PyTorch and Hugging Face, in the file's order."""
    with path.open(newline="") as file:
        return [
            Row(
                kernel=row["kernel_name"],
                mode=row["kernel_operation_mode"],
                gpu=row["gpu_name"],
                x_name=row["x_name"],
                x_value=int(row["x_value"]),
                settings=row["extra_benchmark_config_str"],
                date=row["timestamp"][:10],
                mib=float(row["y_value_50"]),
            )
            for row in csv.DictReader(file)
            if row["metric_name"] == "memory" and row["kernel_provider"] in PROVIDERS
        ]
