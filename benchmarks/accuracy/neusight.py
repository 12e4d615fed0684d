"""NeuSight's measurements: language models in float32 without TF32, end to end, and single operators of one layer.

Source: sitar-lab/NeuSight (MIT), its labels. A training row is forward and backward without an optimizer; an inference
row is forward alone. The models are those of transformers with attention written out.
"""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from dry import ORACLES, ROOT

sys.path.insert(0, str(ROOT / "src"))
from flatout.costs import Operation, TensorType
from flatout.recording.operation import contiguous_strides

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


@dataclass(frozen=True)
class Single:
    """One operator of one layer, forward: its operations as PyTorch runs them, and what they took together."""

    model: str
    device: str
    operations: tuple[Operation, ...]
    seconds: float


LEAST_SECONDS = 30e-6
"""Shorter rows are left out: each was timed on its own, and 6 to 12 microseconds of it are the timing."""
_LINEAR = re.compile(r"\.(query|key|value|dense|decoder|[qkv]_proj|out_proj|fc[12]|transform\.dense)$|^lm_head$")
_NORM = re.compile(r"(ln_\w+|layer_norm|LayerNorm)$")
_POINTWISE = re.compile(r"built-in (function|method) (add|mul|truediv|tanh|gelu|where|pow)\b|activation_fn$")


def single_operators() -> Iterator[Single]:
    """The rows whose operator is known here: products, softmax, layer norm and element-wise operators."""
    for path in sorted((FOLDER / "per_op").glob("*/*.csv")):
        found = re.match(r"(.+)-(inf|train)-\d+-\d+", path.stem)
        if found is None or found[1] == "switch4":
            continue
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        nothing = min(float(row["fw_latency"]) for row in rows if row["target"] == "size") / 1e3
        for row in rows:
            seconds = float(row["fw_latency"]) / 1e3 - nothing
            if seconds < LEAST_SECONDS:
                continue
            operations = tuple(_operations(row))
            if operations:
                yield Single(found[1], path.parent.name, operations, seconds)


def _float(shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> TensorType:
    return TensorType(shape, contiguous_strides(shape) if strides is None else strides, "float32")


def _operations(row: dict[str, str]) -> Iterator[Operation]:
    target = row["target"]
    shapes = [tuple(shape) for shape in ast.literal_eval(row["input_shapes"])]
    contiguous = ast.literal_eval(row["input_contiguous"])
    out: tuple[int, ...] = ast.literal_eval(row["output_shape"])
    if row["dtype"] != "torch.float32" or not shapes:
        return
    if row["op"] == "call_module" and _LINEAR.search(target):
        tokens, width = prod(out[:-1]), shapes[0][-1]
        weight = _float((width, out[-1]), (1, width))
        arguments = (_float((out[-1],)), _float((tokens, width)), weight)
        yield Operation("aten::addmm", arguments, outputs=(_float((tokens, out[-1])),))
    elif "addmm" in target:
        yield Operation("aten::addmm", tuple(map(_float, shapes)), outputs=(_float(out),))
    elif "matmul" in target or "bmm" in target:
        yield from _batched(shapes, contiguous, out)
    elif "softmax" in target:
        yield Operation("aten::_softmax", (_float(shapes[0]), -1, False), outputs=(_float(out),))
    elif row["op"] == "call_module" and _NORM.search(target):
        scale = _float(shapes[0][-1:])
        arguments = (_float(shapes[0]), shapes[0][-1:], scale, scale)
        yield Operation("aten::native_layer_norm", arguments, outputs=(_float(out),))
    elif _POINTWISE.search(target):
        tensors = tuple(_float(shape) for shape in shapes if shape != (1,))
        yield Operation("aten::add", tensors, outputs=(_float(out),))


def _batched(shapes: list[tuple[int, ...]], contiguous: list[bool], out: tuple[int, ...]) -> Iterator[Operation]:
    """A product of many matrices. Heads that are views of rows are copied together first."""
    sides = []
    for shape, whole in zip(shapes, contiguous):
        merged = (prod(shape[:-2]), *shape[-2:])
        if not whole and len(shape) == 4 and shape[0] > 1:
            yield Operation("aten::copy_", (_float(merged), _float(merged)), written=(0,))
        sides.append(_float(merged))
    yield Operation("aten::bmm", tuple(sides), outputs=(_float((prod(out[:-2]), *out[-2:])),))
