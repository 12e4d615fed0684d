"""Predictions as the terminal gets them, of a script that lies in the current directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatout.findings import Finding, Remedy, Saving
from flatout.recording.schema import Holder, Place, Step, Wait
from flatout.virtual.prediction import (
    SCHEMA,
    Dearest,
    LargestBatch,
    Memory,
    PeakAt,
    PredictedError,
    Prediction,
    Result,
    Time,
    Tried,
)

MIB = 1 << 20
GIB = 1 << 30
CONTEXT_BYTES = 480 * MIB

SCRIPT = """\
import torch
from model import GPT

for step, (x, y) in enumerate(loader):
    loss = model(x, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    running += loss.item()
    if float(loss) > best: break
    x = x + self.mlp(self.ln_2(x))
"""


def memory_of(usable_bytes: int, scale: float, unsure_bytes: int = 512 * MIB) -> Memory:
    """A GPU of `usable_bytes` at its peak; `scale` is how large the batch is."""
    kinds = {
        "parameters": 498 * MIB,
        "gradients": 498 * MIB,
        "optimizer": 996 * MIB,
        "activations": int(11.2 * GIB * scale),
        "inputs": 2 * MIB,
        "workspace": 72 * MIB,
        "other": 410 * MIB,
    }
    reserved_bytes = sum(kinds.values()) + 600 * MIB
    return Memory(
        capacity_bytes=usable_bytes + 300 * MIB,
        usable_bytes=usable_bytes,
        context_bytes=CONTEXT_BYTES,
        peak_allocated_bytes=sum(kinds.values()),
        peak_reserved_bytes=reserved_bytes,
        upper_bound_bytes=reserved_bytes + unsure_bytes,
        free_bytes=usable_bytes - CONTEXT_BYTES - reserved_bytes,
        peak_at=PeakAt(1, "backward", "train.py", 6),
        by_category=kinds,
    )


STEPS = tuple(Step(index, 12_345 + index, 100 * index, 14 * GIB, Place("train.py", 7)) for index in (1, 2, 3))
FITS = Result(
    gpu="NVIDIA A100-SXM4-40GB",
    label="A100 SXM 40 GB",
    outcome="fits",
    memory=memory_of(42_505_273_344, 1.0),
    error=None,
    exit_code=0,
    used_gpu=True,
    steps=3,
    operations=37_000,
    holders=(
        Holder(None, "optimizer", 996 * MIB, 300),
        Holder(Place("train.py", 10), "activations", 6 * GIB, 48),
    ),
    waits=(
        Wait(Place("train.py", 8), ".item()", 3, True, False),
        Wait(Place("train.py", 9), "float()", 12, True, True),
    ),
    per_step=STEPS,
    facts={"attention": "flash", "threads": 2},
)


def changed(**fields: object) -> Result:
    """`FITS`, with other fields."""
    known = {name: getattr(FITS, name) for name in FITS.__struct_fields__}
    return Result(**{**known, **fields})


def unused(usable_bytes: int) -> Memory:
    return Memory(usable_bytes, usable_bytes, CONTEXT_BYTES, 0, 0, 0, usable_bytes - CONTEXT_BYTES, None, {})


T4 = {"gpu": "Tesla T4", "label": "T4 16 GB"}
T4_BYTES = 15_835_660_288
TWIN = changed(gpu="NVIDIA H100 80GB HBM3", label="H100 SXM 80 GB", memory=memory_of(85_017_493_504, 1.0))
MAY_NOT_FIT = changed(**T4, outcome="may_not_fit", memory=memory_of(T4_BYTES, 0.95, 1500 * MIB))
OUT_OF_MEMORY = changed(
    gpu="NVIDIA GeForce RTX 3090",
    label="RTX 3090 24 GB",
    outcome="out_of_memory",
    exit_code=1,
    steps=0,
    memory=memory_of(25_447_170_048, 1.7),
    unlimited=memory_of(25_447_170_048, 2.4),
    needed_bytes=memory_of(25_447_170_048, 2.4).needed_bytes,
    error=PredictedError(
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.70 GiB. See the manual.",
        "train.py",
        10,
    ),
)
ERROR = changed(
    **T4,
    outcome="error",
    exit_code=1,
    used_gpu=False,
    memory=unused(T4_BYTES),
    steps=0,
    per_step=(),
    holders=(),
    waits=(),
    error=PredictedError(
        "RuntimeError", "mat1 and mat2 must have the same dtype, but got Half and Float", "train.py", 5
    ),
)
KILLED = changed(
    **T4,
    outcome="error",
    exit_code=-9,
    error=PredictedError("SIGKILL", "the process was killed (SIGKILL). It was last seen: step 2."),
)
UNUSED = changed(**T4, used_gpu=False, memory=unused(T4_BYTES), per_step=(), steps=0)
NO_STEP = changed(steps=0, per_step=())
REFUSED = changed(
    **T4,
    outcome="error",
    error=PredictedError(
        "flatout.errors.UnsupportedError", "torch.func.hessian is not there yet", "train.py", 5, cause="refused"
    ),
)
NOTHING = {"outcome": "error", "memory": unused(T4_BYTES), "used_gpu": False, "steps": 0, "per_step": (), **T4}
USAGE = changed(
    **NOTHING,
    exit_code=2,
    error=PredictedError("SystemExit", "the script ended itself with exit code 2", cause="script"),
)
NO_INPUT = changed(
    **NOTHING,
    exit_code=1,
    error=PredictedError(
        "EOFError", "EOF when reading a line", "train.py", 1, cause="script", doing="setup, before the first step"
    ),
)
TIMEOUT = changed(
    **{**T4, "outcome": "error", "exit_code": 1, "steps": 2},
    error=PredictedError("timeout", "stopped by --timeout.", "train.py", 5, cause="timeout", doing="forward, step 3"),
)
GAVE_UP = changed(
    **{**NOTHING, "used_gpu": True},
    exit_code=1,
    facts={"out_of_memory_caught": 1},
    error=PredictedError(
        "SystemExit", "the script ended itself with exit code 1: too big", "train.py", 9, cause="script"
    ),
)
HALVED = changed(**T4, memory=memory_of(T4_BYTES, 0.6), facts={"out_of_memory_caught": 2})
SMALL = changed(memory=Memory(80 * GIB, 80 * GIB, 400 * MIB, MIB, 2 * MIB, 2 * MIB, 79 * GIB, None, {"inputs": MIB}))
ASSUMED = (
    "random numbers on the GPU are seeded, not the GPU's own (train.py:1)",
    "the loss was taken as 2.30 (train.py:8, 3 times)",
    "x[mask] keeps half of its elements (train.py:10)",
    "cuDNN takes at most 256 MiB of workspace",
    "the data is what the loader gives",
)


def prediction_of(
    *results: Result, assumptions: tuple[str, ...] = (), findings: tuple[Finding, ...] = ()
) -> Prediction:
    return Prediction(SCHEMA, "2.13.0", "train.py", ("--batch-size", "12"), results, assumptions, findings)


def time_of(step_seconds: float, samples_per_second: float | None = None) -> Time:
    """A step that the GPU is busy with for two thirds."""
    parts = {"compute": 0.4, "memory": 0.26, "launch": 0.2, "data": 0.135, "transfer": 0.005}
    return Time(
        step_seconds=step_seconds,
        low_seconds=step_seconds / 1.2,
        high_seconds=step_seconds * 1.2,
        lower_bound_seconds=step_seconds / 4,
        kernels_seconds=step_seconds * 0.66,
        host_seconds=step_seconds * 0.5,
        bound_by={name: share * step_seconds for name, share in parts.items()},
        flops=1e12,
        flops_utilization_ratio=0.31,
        samples_per_second=samples_per_second,
        unknown_operators={"aten::special_i1": 1e-3, "mine::kernel": 2e-3},
        dearest=(
            Dearest("aten::mm", 48, step_seconds * 0.3, "train.py", 10),
            Dearest("aten::native_layer_norm", 1, step_seconds * 0.1),
        ),
    )


def finding_of(code: str, seconds: float, low: float, line: int = 8) -> Finding:
    return Finding(
        code=code, name="host-waits-for-gpu", severity="high", message="the host waits for the GPU here once a step",
        file="train.py" if line else "", line=line, column=1, end_line=line, end_column=1,
        saving=Saving(seconds_per_step=seconds, low=low, high=seconds * 1.2 if low else seconds),
        remedy=Remedy(text="keep the value on the GPU and read it rarely, or log it with loop.log"),
    )  # fmt: skip


TIMED = changed(time=time_of(0.0412, 1553.2))
RANKED = tuple(
    changed(
        gpu=f"GPU {number}", label=f"RTX {3000 + 10 * number}", judged_from="RTX 3060" if number else None,
        time=time_of(0.01 * number + 0.005, 4000.0 / (number + 1)),
        dollars_per_million_samples=0.005 * (number + 1) if number % 2 else None,
        dollars_per_million_steps=0.32 * (number + 1) if number % 2 else None,
    )
    for number in range(6)
)  # fmt: skip
TRIED = changed(
    time=time_of(0.5),
    largest_batch=LargestBatch(
        "--batch-size", 24, 16,
        (
            Tried(8, "fits", 6 * GIB, 24 * GIB, 0.25, 32.0),
            Tried(16, "fits", 11 * GIB, 24 * GIB, 0.5, 32.0),
            Tried(24, "may_not_fit", 16 * GIB, 24 * GIB, 0.8, 30.0),
            Tried(32, "out_of_memory", 27 * GIB, 24 * GIB),
        ),
    ),
)  # fmt: skip


PREDICTIONS = {
    "fits": prediction_of(FITS, assumptions=ASSUMED),
    "may_not_fit": prediction_of(MAY_NOT_FIT),
    "out_of_memory": prediction_of(OUT_OF_MEMORY),
    "error": prediction_of(ERROR),
    "killed": prediction_of(KILLED),
    "unused": prediction_of(UNUSED),
    "no_step": prediction_of(NO_STEP),
    "refused": prediction_of(REFUSED),
    "usage": prediction_of(USAGE),
    "no_input": prediction_of(NO_INPUT),
    "timeout": prediction_of(TIMEOUT),
    "gave_up": prediction_of(GAVE_UP),
    "halved": prediction_of(HALVED, SMALL),
    "timed": prediction_of(
        TIMED,
        findings=(finding_of("FO101", 4e-3, 3e-3), finding_of("FO609", 2e-3, 0.0, line=0)),
    ),
    "ranked": prediction_of(*RANKED, OUT_OF_MEMORY, ERROR, assumptions=ASSUMED),
    "tried": prediction_of(TRIED),
    "several": prediction_of(MAY_NOT_FIT, OUT_OF_MEMORY, FITS, TWIN, assumptions=ASSUMED),
}


@pytest.fixture(scope="session")
def predictions() -> dict[str, Prediction]:
    return PREDICTIONS


@pytest.fixture(params=sorted(PREDICTIONS))
def named(request: pytest.FixtureRequest) -> tuple[str, Prediction]:
    """Each prediction in turn, with its name."""
    return request.param, PREDICTIONS[request.param]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)
