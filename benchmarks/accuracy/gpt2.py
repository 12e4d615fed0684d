"""A published step of GPT-2 124M on one A100 40 GB, eager and under torch.compile, against predictions.

    python benchmarks/accuracy/gpt2.py [--json FILE]

Source: karpathy/nanoGPT, README, "efficiency notes": torch.compile cuts an iteration "from ~250ms / iter to 135ms /
iter". When that sentence was written (commit 5a725d9, 30 December 2022), both of its scripts ran batches of **8** x
1024 in bfloat16 autocast, one micro-batch a step, on a nightly build of PyTorch 2.0. The model wrote attention out
(`scaled_dot_product_attention` came later), had 50257 tokens and an activation under ``torch.jit.script`` (one fused
kernel, at which the compiler broke the graph), and AdamW went through its parameters one by one. bench.py had no
dropout (the reading `bench`), train.py had 0.1 (the reading `train`); which of them the sentence is about is not said.

The reading `later` is what the defaults became: 12 x 1024, fused attention, 50304 tokens, fused AdamW. No time for it
stands beside those two numbers; it is shown against them because it is how they are usually quoted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dry import HERE, ROOT, SCRIPTS

sys.path.insert(0, str(ROOT / "src"))

PUBLISHED_SECONDS = {"eager": 0.250, "compiled": 0.135}
_THEN = [
    "--batch-size", "8", "--vocabulary", "50257", "--attention", "written", "--optimizer", "loop", "--apart",
]  # fmt: skip
READINGS = {
    "bench": _THEN,
    "train": [*_THEN, "--dropout", "0.1"],
    "later": ["--batch-size", "12", "--vocabulary", "50304", "--attention", "fused", "--optimizer", "fused"],
}


def predicted(arguments: list[str], gpu: str) -> dict[str, Any]:
    """What ``flatout predict`` says."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "prediction.json"
        command = [sys.executable, "-m", "flatout", "predict", "--gpu", gpu, "--json", str(out)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([*command, str(SCRIPTS / "gpt2_step.py"), *arguments], check=True, env=environment, cwd=HERE,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        result = json.loads(out.read_text())["results"][0]
        found: dict[str, Any] = result["time"]
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="a100-40gb")
    parser.add_argument("--json", type=Path, help="write the scores there")
    options = parser.parse_args()
    lines = []
    for reading, arguments in READINGS.items():
        for how, published in PUBLISHED_SECONDS.items():
            time = predicted([*arguments, *(["--compile"] if how == "compiled" else [])], options.gpu)
            step, low, high = (1e3 * time[f"{name}_seconds"] for name in ("step", "low", "high"))
            inside = low <= 1e3 * published <= high
            said = f"published about {1e3 * published:.0f} ms, predicted {step:.0f} ms ({low:.0f} to {high:.0f})"
            print(f"{reading:10s} {how:9s} {said}: {'inside' if inside else 'outside'}")
            lines.append(
                {"reading": reading, "how": how, "published_seconds": published, "predicted_seconds": step / 1e3,
                 "low_seconds": low / 1e3, "high_seconds": high / 1e3, "inside": inside}
            )  # fmt: skip
    if options.json:
        told = {"date": datetime.date.today().isoformat(), "gpu": options.gpu, "rows": lines}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
