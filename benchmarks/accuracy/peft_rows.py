"""PEFT's comparison of methods: Llama-3.2-3B in bfloat16 on an L40S, the largest reserved memory of 5000 steps.

Source: huggingface/peft, method_comparison/MetaMathQA (July 2026; torch 2.13, CUDA 13). The figure is
``torch.cuda.max_memory_reserved()`` after training less that before loading the model. The original trains on MetaMathQA; ours on
random tokens of a documented distribution of lengths (see the script), 12 steps around the longest batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dry import KEPT, ORACLES, Runner

GPU = "l40s"
LONGEST = 768


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


def runner() -> Runner:
    """A runner with transformers and peft imported."""
    return Runner("peft", ["torch", "transformers", "transformers.models.llama.modeling_llama", "peft", "peft.optimizers"])
