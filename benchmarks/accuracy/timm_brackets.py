"""timm's training benchmark on an RTX 3090: at which batch size did 24 GB run out?

Source: huggingface/pytorch-image-models, results/benchmark-train-amp-{nchw,nhwc}-pt112-cu113-rtx3090.csv (July
2022). Its benchmark.py tries 512, 384, 256, 192, ... images until one fits: the batch in the table fitted, and the
next larger one in that walk did not. A model that took 512 was not tried with more.

The models are those of timm 0.6.7 (the version of that table, when its folder is given), since many have changed.
"""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dry import ORACLES, Runner

LAYOUTS = ("nchw", "nhwc")
WALK = (512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
GPU = "RTX 3090, CUDA 11.3"
USABLE_BYTES = 24268 << 20
SEED = 2022
DRAWS = ((SEED, 100), (5, 90), (7, 40))
"""Seed and number of models of each draw. A later one draws from the models that those before it left."""
OLDER_TABLES = Path(__file__).with_name("timm_older_tables.csv")
# PyTorch 1.12 had no cuBLAS workspace of its own.
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0", "TIMM_FUSED_ATTN": "0"}


@dataclass(frozen=True)
class Bracket:
    """One row: `batch` images of `size` pixels a side fitted, `next_batch` did not (None: not tried)."""

    layout: str
    model: str
    batch: int
    size: int
    next_batch: int | None

    def arguments(self, batch: int) -> list[str]:
        """The command line of the script for a batch of that size."""
        layout = ["--channels-last"] if self.layout == "nhwc" else []
        return ["--model", self.model, "--batch-size", str(batch), "--image-size", str(self.size), *layout]


def read() -> list[Bracket]:
    """All rows of both tables."""
    brackets = []
    for layout in LAYOUTS:
        path = ORACLES / "timm" / f"benchmark-train-amp-{layout}-pt112-cu113-rtx3090.csv"
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                batch = int(row["train_batch_size"])
                at = WALK.index(batch)
                brackets.append(
                    Bracket(layout, row["model"], batch, int(row["train_img_size"]), WALK[at - 1] if at else None)
                )
    return brackets


def sample(brackets: list[Bracket], count: int, seed: int) -> list[Bracket]:
    """`count` models by seed, and of each one row, in one of its layouts."""
    models: dict[str, list[Bracket]] = {}
    for bracket in brackets:
        models.setdefault(bracket.model, []).append(bracket)
    drawn = random.Random(seed)
    chosen = drawn.sample(sorted(models), min(count, len(models)))
    return [drawn.choice(models[model]) for model in chosen]


def draws(brackets: list[Bracket], wanted: Sequence[tuple[int, int]] = DRAWS) -> dict[int, list[Bracket]]:
    """By seed: a sample of that many models, of those that no draw before it had."""
    drawn: dict[int, list[Bracket]] = {}
    left = brackets
    for seed, count in wanted:
        drawn[seed] = sample(left, count, seed)
        seen = {bracket.model for bracket in drawn[seed]}
        left = [bracket for bracket in left if bracket.model not in seen]
    return drawn


def fitted_before() -> dict[tuple[str, str], int]:
    """By model and layout: the batch that fitted with PyTorch 1.10 or 1.11, where 1.12 failed with it or a smaller one.

    Same card, same author, same image size: what failed there may be something else than memory, since the benchmark
    goes down after any error. All such rows of the two tables.

    Source: results/benchmark-train-amp-{nchw,nhwc}-pt{110,111}-cu113-rtx3090.csv of huggingface/pytorch-image-models,
    commits eac2df3d and 02b806e0 (April 2022).
    """
    with OLDER_TABLES.open(newline="") as file:
        return {
            (row["model"], row["layout"]): max(int(row[name] or 0) for name in ("batch_1_11", "batch_1_10"))
            for row in csv.DictReader(file)
        }


_MARKS = re.compile(r"^(tf|ssl|swsl|ig|gluon|legacy|adv|ens_adv|jx|ese|ecare|eca|ser|se|skr|sk)_?")
_STEMS = (
    "efficientnet", "resnext", "resnet", "darknet", "convnext", "densenet", "mobilenet", "mixer", "swin", "halonet",
    "botnet", "vit", "xcit", "regnet", "nfnet", "inception", "vovnet", "coat", "volo", "poolformer", "deit", "beit",
    "cait", "pit", "mlp",
)  # fmt: skip


def family(model: str) -> str:
    """The family of a model: a stem that its name contains, else the letters that it starts with.

    ``tf_efficientnet_b7_ns`` and ``efficientnet_b2a`` are one family; so are ``resnetv2_50`` and ``ssl_resnet18``.
    """
    for stem in _STEMS:
        if stem in model:
            return stem
    found = re.match(r"[a-z]+", _MARKS.sub("", model))
    return found[0] if found else model


def halves(models: Iterable[str]) -> dict[str, str]:
    """Each family's half, ``fitting`` or ``scoring``: drawn by seed so that both have about as many models."""
    sizes = Counter(family(model) for model in models)
    names = sorted(sizes)
    random.Random(SEED).shuffle(names)
    total = {"fitting": 0, "scoring": 0}
    chosen = {}
    for name in sorted(names, key=lambda name: -sizes[name]):
        least = min(total, key=lambda side: total[side])
        chosen[name] = least
        total[least] += sizes[name]
    return chosen


def runner(timm_folder: Path | None, *, reuse: bool = False) -> Runner:
    """A runner with timm imported, from that folder if given."""
    return Runner("timm", ["torch", "timm"], ENVIRONMENT, [timm_folder] if timm_folder else [], reuse=reuse)
