"""NeuSight's measurements: language models in float32 without TF32, end to end, and single operators of one layer.

Source: sitar-lab/NeuSight (MIT), its labels. A training row is forward and backward without an optimizer; an inference
row is forward alone. The models are those of transformers with attention written out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass

from dry import ORACLES

FOLDER = ORACLES / "neusight"
GPUS = {
    "NVIDIA_A100-PCIE-40GB": "A100 PCIe 40 GB",
    "NVIDIA_A100_80GB_PCIe": "A100 PCIe 80 GB",
    "NVIDIA_H100_80GB_HBM3": "H100 SXM 80 GB",
    "NVIDIA_L4": "L4",
    "Tesla_T4": "T4",
}


@dataclass(frozen=True)
class Row:
    """One measurement: `model` on `length` tokens of `batch` sequences; `seconds` is what it took."""

    model: str
    length: int
    batch: int
    device: str
    train: bool
    seconds: float
    neusight_seconds: float
    roofline_seconds: float

    def arguments(self) -> list[str]:
        """The command line of the script."""
        mode = ["--train"] if self.train else []
        config = str(FOLDER / "model_configs" / f"{self.model}.json")
        return ["--config", config, "--length", str(self.length), "--batch-size", str(self.batch), *mode]


def end_to_end() -> list[Row]:
    """All rows on one GPU without fusion."""
    rows = []
    with (FOLDER / "end_to_end_ms.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["option"]:
                continue
            seconds = [float(row[f"{who}_all_e2e_latency"] or "nan") / 1e3 for who in ("label", "neusight", "roofline")]
            rows.append(
                Row(
                    row["model_name"],
                    int(row["seqlen"]),
                    int(row["batch"]),
                    row["device"],
                    row["mode"] == "train",
                    *seconds,
                )
            )
    return rows


def unique(rows: Iterable[Row]) -> list[Row]:
    """One row for each command line."""
    return list({tuple(row.arguments()): row for row in rows}.values())
