"""Two published traces of ResNet-50 on a V100 against the simulated step: GPU time in all, and by kind of work.

    python benchmarks/accuracy/traces.py [--json OUT]

Source: pytorch/kineto, tb_plugin/samples (June 2021): ResNet-50, float32, batch 32 of 224 x 224, SGD with momentum,
one V100-DGXS 32 GB, PyTorch 1.8, recorded with 0 and with 4 loader workers. Nothing is fitted on them. The measured GPU
time of a step is the sum of its kernels; the median of the recorded steps is taken. The script that is simulated is an
ordinary one of that shape (tests/scripts/imagenet_resnet50.py) on today's PyTorch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from dry import ORACLES, ROOT

sys.path.insert(0, str(ROOT / "src"))
from flatout.costs import cost, kernel_limits
from flatout.gpu import find
from flatout.recording import open_recording
from flatout.recording.tape import Launch, Tape
from flatout.timeline import Host, play

FOLDER = ORACLES / "traces" / "kineto"
TRACES = {
    "0 workers": "resnet50_num_workers_0.worker0.1623143089861.pt.trace.json.gz",
    "4 workers": "resnet50_num_workers_4.worker0.1623212756351.pt.trace.json.gz",
}
GPU = "v100-sxm-32gb"
GOAL = 0.15
# The innermost operator that launched a kernel, to what it is counted as here.
KINDS = {
    "cudnn_convolution": "convolution", "cudnn_convolution_backward_weight": "convolution, backward",
    "cudnn_convolution_backward_input": "convolution, backward", "cudnn_batch_norm": "batch norm",
    "cudnn_batch_norm_backward": "batch norm, backward",
}  # fmt: skip
OURS = {
    "convolution": "convolution", "convolution_backward": "convolution, backward", "cudnn_batch_norm": "batch norm",
    "cudnn_batch_norm_backward": "batch norm, backward",
}  # fmt: skip
REST = "everything else"


def measured(path: Path) -> list[dict[str, float]]:
    """Seconds of GPU work by kind, for each whole step of the trace."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    steps = [span for span in spans if str(span["name"]).startswith("ProfilerStep#")]
    runtime = {span["args"]["correlation"]: span for span in spans if span.get("cat") == "Runtime"}
    operators: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for span in spans:
        if span.get("cat") == "Operator":
            operators[span["tid"]].append(span)
    found = []
    for step in steps:
        total: Counter[str] = Counter()
        begin, end = step["ts"], step["ts"] + step["dur"]
        inside = {tid: [one for one in of if begin <= one["ts"] < end] for tid, of in operators.items()}
        for kernel in spans:
            launch = runtime.get(kernel.get("args", {}).get("correlation")) if kernel.get("cat") == "Kernel" else None
            if launch is not None and begin <= launch["ts"] < end:
                total[_kind(launch, inside.get(launch["tid"], []))] += kernel["dur"] * 1e-6
        found.append(dict(total))
    return found


def _kind(launch: dict[str, Any], operators: list[dict[str, Any]]) -> str:
    around = [one for one in operators if one["ts"] <= launch["ts"] <= one["ts"] + one["dur"]]
    innermost = min(around, key=lambda one: one["dur"], default=None)
    return REST if innermost is None else KINDS.get(str(innermost["name"]).removeprefix("aten::"), REST)


def tape_of_the_script() -> Tape:
    """The dry run of a script of that shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.flatout"
        script = ROOT / "tests" / "scripts" / "imagenet_resnet50.py"
        command = [sys.executable, "-m", "flatout", "predict", "--gpu", GPU, "-o", str(path), str(script)]
        subprocess.run([*command, "--batch-size", "32"], check=True, capture_output=True, cwd=folder)
        with open_recording(path) as recording:
            tape = recording.tape()
    assert tape is not None
    return tape


def predicted(tape: Tape) -> dict[str, float]:
    """Seconds of GPU work by kind, for one step."""
    gpu = find(GPU)
    total: Counter[str] = Counter()
    for event in tape.events:
        if isinstance(event, Launch):
            operation = tape.operations[event.operation]
            kind = OURS.get(operation.base.removeprefix("aten::"), REST)
            seconds = sum(kernel_limits(kernel, gpu).seconds for kernel in cost(operation).kernels)
            total[kind] += seconds / tape.steps
    return dict(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not FOLDER.is_dir():
        raise SystemExit(f"the traces are not in {FOLDER}; FLATOUT_ORACLES names the folder that holds traces/kineto")
    tape = tape_of_the_script()
    ours = predicted(tape)
    result: dict[str, Any] = {
        "schema": "flatout.benchmark.traces/1",
        "date": time.strftime("%Y-%m-%d"),
        "predicted": {"kernels_seconds": sum(ours.values()), "by_kind": ours},
        "step_seconds": play(tape, find(GPU), Host()).step_seconds,
        "traces": {},
    }
    for name, file in TRACES.items():
        steps = measured(FOLDER / file)
        kinds = sorted({kind for step in steps for kind in step})
        theirs = {kind: statistics.median(step.get(kind, 0.0) for step in steps) for kind in kinds}
        total = statistics.median(sum(step.values()) for step in steps)
        error = sum(ours.values()) / total - 1
        result["traces"][name] = {"kernels_seconds": total, "by_kind": theirs, "error": error, "goal": GOAL}
        print(f"{name}: measured {total * 1e3:.1f} ms, predicted {sum(ours.values()) * 1e3:.1f} ms ({error:+.1%})")
        for kind in kinds:
            print(f"  {kind:24} {theirs[kind] * 1e3:7.2f} ms {ours.get(kind, 0.0) * 1e3:7.2f} ms")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
