"""Hugging Face's guide to training on one GPU: BERT-large, sequences of 512, a V100 of 16 GB, what nvidia-smi showed.

Source: huggingface/transformers, docs/source/en/perf_train_gpu_one.mdx (2022). nvidia-smi shows what PyTorch reserved plus the CUDA
context; the guide measured the context by itself: 1,343 MB. nvidia-smi's listing in the guide is of January 2022, when PyTorch
was at 1.10, so the script is asked to keep in memory what that version kept: gradients between steps, and the input of softmax
(16 MiB a layer and sentence), which its backward took until 1.11.
"""

from __future__ import annotations

from dataclasses import dataclass

from dry import Runner

GPU = "V100 16 GB, CUDA 11.2"
CONTEXT_BYTES = 1343 << 20
# The PyTorch of that time had no cuBLAS workspace of its own.
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0"}
LEFT_OUT = {
    "batch 4, 8-bit Adam": "needs bitsandbytes, whose kernels exist only on a GPU",
    "all of it, 8-bit Adam": "needs bitsandbytes, whose kernels exist only on a GPU",
}


@dataclass(frozen=True)
class BertRow:
    """One line of the guide."""

    name: str
    measured_mib: int
    arguments: tuple[str, ...]

    @property
    def script_arguments(self) -> tuple[str, ...]:
        """The command line of the script."""
        return (*self.arguments, "--like-torch-1.10")

    @property
    def measured_bytes(self) -> int:
        """What nvidia-smi showed, in bytes."""
        return self.measured_mib << 20


_ACCUMULATE = ("--batch-size", "1", "--accumulate", "4")
ROWS = (
    BertRow("batch 4", 14949, ()),
    BertRow("batch 1 x 4", 8681, _ACCUMULATE),
    BertRow("batch 1 x 4, checkpointing", 6775, (*_ACCUMULATE, "--checkpointing")),
    BertRow("batch 4, fp16", 13939, ("--fp16",)),
    BertRow("batch 1 x 4, checkpointing, fp16", 7275, (*_ACCUMULATE, "--checkpointing", "--fp16")),
    BertRow("batch 4, Adafactor", 12295, ("--optimizer", "adafactor")),
    BertRow("all of it, Adafactor", 4847, (*_ACCUMULATE, "--checkpointing", "--fp16", "--optimizer", "adafactor")),
)


def runner() -> Runner:
    """A runner with transformers' Trainer imported."""
    return Runner("bert", ["torch", "accelerate", "transformers.trainer", "transformers.models.bert.modeling_bert"], ENVIRONMENT)
