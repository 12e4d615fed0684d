"""PEFT's comparison of methods: Llama-3.2-3B in bfloat16 on an L40S, the largest reserved memory of 5000 steps.

Source: huggingface/peft, method_comparison/MetaMathQA (July 2026; torch 2.13, CUDA 13). The figure is
``torch.cuda.max_memory_reserved()`` after training less that before loading the model. The original trains on
MetaMathQA; ours on random tokens of a documented distribution of lengths (see the script), 12 steps around the
longest batch.

How long the longest text of the original's 20,000 is, nobody says: texts of more than 1300 characters are left out
and 768 tokens are the limit. So that length is taken from the rows in `FITTED`: with 768 tokens, what is predicted
beyond the weights is 1.07 times what was measured beyond them, for each of the four (1.06 to 1.07), which is a
longest text of about 716 tokens. They do not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from dry import KEPT, ORACLES, Runner
from score import Line, median_error_line

GPU = "l40s"
LONGEST = 716
FITTED = ("beft target-v_proj", "deft rank32-para", "deft rank32", "delora rank32")
_ON_THE_CPU = "its start decomposes every weight matrix on the CPU, with real arithmetic: more than 15 minutes here"
LEFT_OUT = {"adamss rank32": _ON_THE_CPU, "frod default": _ON_THE_CPU}


@dataclass(frozen=True)
class PeftRow:
    """One method with its settings, and the bytes that a real L40S reserved at most."""

    name: str
    method: str
    measured_bytes: int
    arguments: tuple[str, ...]


def _adapter_folder(name: str, settings: dict[str, Any]) -> str:
    folder = KEPT / "adapters" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(settings)
    path = folder / "adapter_config.json"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(folder)


def read(longest: int = LONGEST) -> Iterator[PeftRow]:
    """All language-model rows; `longest` is the number of tokens at which texts are cut."""
    for path in sorted((ORACLES / "peft/results").glob("*llama-3.2-3B*.json")):
        told = json.loads(path.read_text())
        train, settings = told["run_info"]["train_config"], told["run_info"]["peft_config"]
        name = path.stem.replace("llama-3.2-3B-", "").replace("--", " ")
        arguments = ["--longest", str(longest), "--optimizer", train["optimizer_type"], "--optimizer-arguments"]
        arguments += [f"{key}={value}" for key, value in train["optimizer_kwargs"].items()]
        if not train["autocast_adapter_dtype"]:
            arguments.append("--keep-adapter-dtype")
        if settings:
            arguments += ["--adapter", _adapter_folder(path.stem, settings)]
        method = settings["peft_type"] if settings else "full fine-tuning"
        yield PeftRow(name, method, told["train_info"]["accelerator_memory_max"], tuple(arguments))


def runner(*, reuse: bool = False) -> Runner:
    """A runner with transformers and peft imported."""
    modules = ["torch", "transformers", "transformers.models.llama.modeling_llama", "peft", "peft.optimizers"]
    return Runner("peft", modules, reuse=reuse)


@dataclass
class Measured:
    """What came out: a row each, and why others are missing."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"longest_tokens": LONGEST, "fitted_on": FITTED, **asdict(self)}


def measure(runner: Runner, say: Callable[[str], None]) -> Measured:
    """Run every row."""
    measured = Measured()
    for row in read():
        if row.name in LEFT_OUT:
            measured.left_out[row.name] = LEFT_OUT[row.name]
            continue
        told = runner.run("peft_llama.py", row.arguments, GPU)
        if told["outcome"] != "fits":
            measured.left_out[row.name] = str(told["message"]).strip().splitlines()[-1]
            say(f"peft  {row.name}: {measured.left_out[row.name]}")
            continue
        said = told["peak_reserved_bytes"]
        error = 100 * (said / row.measured_bytes - 1)
        measured.rows.append(
            {"row": row.name, "method": row.method, "measured_bytes": row.measured_bytes, "predicted_bytes": said,
             "error_percent": round(error, 2), "fitted": row.name in FITTED}
        )  # fmt: skip
        say(f"peft  {row.name}: {said / 1e9:.2f} GB, measured {row.measured_bytes / 1e9:.2f} ({error:+.1f} %)")
    return measured


def score(measured: Measured) -> list[Line]:
    """The median over the rows that nothing was fitted on, and how many rows that is."""
    errors = [row["error_percent"] for row in measured.rows if not row["fitted"]]
    close = sum(abs(error) <= 5 for error in errors)
    return [
        median_error_line("PEFT, Llama-3.2-3B, L40S", errors, 5, "reserved memory"),
        Line("PEFT, Llama-3.2-3B, L40S", len(errors), "rows within 5 %", f"{close} of {len(errors)}", None),
    ]
