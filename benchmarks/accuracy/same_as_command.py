"""Checks that a run in a fork, as the accuracy benchmark makes it, gives what ``flatout predict`` gives.

    python benchmarks/accuracy/same_as_command.py [--timm-folder FOLDER] [MODEL...]

For each model the same script runs both ways with the same batch on the same card; exit code 1 where the peaks differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dry import GPUS_FILE, ROOT, SCRIPTS
from timm_brackets import ENVIRONMENT, GPU, Bracket, runner

MODELS = ("resnet18", "vit_tiny_patch16_224", "convnext_tiny", "mobilenetv2_100", "densenet121")
BATCH = 32
FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes")


def by_command(bracket: Bracket, folder: Path | None) -> dict[str, Any]:
    """The memory that ``flatout predict --json`` tells."""
    path = [str(ROOT / "src"), str(folder or ""), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "prediction.json"
        subprocess.run(
            [sys.executable, "-m", "flatout", "predict", "--gpu", GPU.replace(",", ""), "--gpus-file", str(GPUS_FILE),
             "--steps", "3", "--json", str(out), str(SCRIPTS / "timm_step.py"), *bracket.arguments(bracket.batch)],
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(p for p in path if p)},
            stdout=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
        told: dict[str, Any] = json.loads(out.read_text())["results"][0]["memory"]
    return told


def main() -> int:
    """Compare all models; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timm-folder", type=Path)
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    forks = runner(options.timm_folder)
    differing = 0
    for model in options.models:
        bracket = Bracket("nhwc", model, BATCH, 224, None)
        forked = forks.run("timm_step.py", bracket.arguments(BATCH), GPU)
        commanded = by_command(bracket, options.timm_folder)
        same = all(forked[figure] == commanded[figure] for figure in FIGURES)
        differing += not same
        print(model, "same" if same else "DIFFERENT", *[(forked[figure], commanded[figure]) for figure in FIGURES])
    forks.close()
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
