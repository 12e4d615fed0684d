"""timm's inference tables: images per second on an RTX 3090 and an RTX 4090, eager and under torch.compile.

Source: huggingface/pytorch-image-models, results/benchmark-infer-amp-*.csv: its benchmark.py with ``--amp`` (float16
autocast around the model, weights in float32), random images, `cudnn.benchmark` on. "dynamo" is ``--torchcompile``.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import timm_brackets
from dry import ORACLES


@dataclass(frozen=True)
class Table:
    """One file: where it was measured, and how."""

    file: str
    gpu: str
    layout: str
    compiled: bool


EAGER_4090 = Table("nchw-pt291-cu128-4090", "rtx 4090", "nchw", False)
COMPILED_4090 = Table("nchw-pt291-cu128-4090-dynamo", "rtx 4090", "nchw", True)
EAGER_3090 = Table("nchw-pt240-cu124-rtx3090", "rtx 3090", "nchw", False)
NHWC_3090 = Table("nhwc-pt240-cu124-rtx3090", "rtx 3090", "nhwc", False)
NHWC_4090 = Table("nhwc-pt240-cu124-rtx4090", "rtx 4090", "nhwc", False)
TABLES = (EAGER_4090, COMPILED_4090, EAGER_3090, NHWC_3090, NHWC_4090)
SEED, COUNT = 291, 100


@dataclass(frozen=True)
class Row:
    """One line of a table. `seconds` is the time of one batch."""

    table: Table
    model: str
    batch: int
    size: int
    seconds: float

    @property
    def arguments(self) -> list[str]:
        """The command line of the script; the tape of the compiled run serves the eager row too."""
        layout = ["--channels-last"] if self.table.layout == "nhwc" else []
        sizes = ["--batch-size", str(self.batch), "--image-size", str(self.size)]
        return ["--model", self.model, *sizes, *layout, "--compile"]


def read(table: Table) -> dict[str, Row]:
    """The lines of a table by model; of a model that was measured at several sizes, the smallest."""
    rows: dict[str, Row] = {}
    with (ORACLES / "timm" / f"benchmark-infer-amp-{table.file}.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            batch, size = int(float(line["infer_batch_size"])), int(float(line["infer_img_size"]))
            seconds = batch / float(line["infer_samples_per_sec"])
            row = Row(table, line["model"], batch, size, seconds)
            if row.model not in rows or size < rows[row.model].size:
                rows[row.model] = row
    return rows


def draw(seed: int = SEED, count: int = COUNT, tables: Sequence[Table] = TABLES) -> list[Row]:
    """The rows of `count` models that were measured both eager and compiled, by seed."""
    content = {table: read(table) for table in tables}
    models = sorted(content[EAGER_4090].keys() & content[COMPILED_4090].keys())
    chosen = random.Random(seed).sample(models, count)
    return [content[table][model] for model in chosen for table in tables if model in content[table]]


def seen(models: Iterable[str]) -> set[str]:
    """Those of whose family the constants were fitted on some model (see `timm_brackets.halves`)."""
    halves = timm_brackets.halves(row.model for row in timm_brackets.read())
    return {model for model in models if halves.get(timm_brackets.family(model)) == "fitting"}
