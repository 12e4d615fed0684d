"""Scripts in the shapes that people write, through the real command: each runs, steps, and uses that GPU's kernels.

The bytes of the optimizer's state are computed here from the sizes of the layers, not taken from a run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import predict

pytestmark = pytest.mark.integration

ADAM = 8
"""Bytes a parameter: two moments in float32. The step counters stay on the CPU unless the optimizer is fused."""
MOMENTUM = 4


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def conv(inputs: int, outputs: int, size: int, bias: bool = False) -> int:
    return inputs * outputs * size * size + (outputs if bias else 0)


def norm(width: int) -> int:
    return 2 * width


def encoder_layer(width: int) -> int:
    """``nn.TransformerEncoderLayer`` with four times the width inside; GPT-2's block has as many parameters."""
    attention = linear(width, 3 * width) + linear(width, width)
    return attention + linear(width, 4 * width) + linear(4 * width, width) + 2 * norm(width)


def lstm(inputs: int, hidden: int, gates: int = 4) -> int:
    return gates * hidden * (inputs + hidden + 2)


def resnet50() -> int:
    count, inputs = conv(3, 64, 7) + norm(64), 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            count += conv(inputs, planes, 1) + conv(planes, planes, 3) + conv(planes, 4 * planes, 1)
            count += 2 * norm(planes) + norm(4 * planes)
            if block == 0:
                count += conv(inputs, 4 * planes, 1) + norm(4 * planes)
            inputs = 4 * planes
    return count + linear(2048, 1000)


def separable(inputs: int, outputs: int) -> int:
    return conv(1, inputs, 3) + norm(inputs) + conv(inputs, outputs, 1) + norm(outputs)


def lbfgs(parameters: int, iterations: int) -> int:
    """A direction, a change of gradient and a factor for each iteration but the first, in float64 (at most 100)."""
    kept = iterations - 1
    vectors = 2 * kept + 2  # and the last direction and gradient
    return 8 * (vectors * parameters + 2 * kept + 1)


NANOGPT = 50304 * 768 + 1024 * 768 + 12 * (12 * 768 * 768 + 2 * 768) + 768
NANOGPT_TENSORS = 2 + 12 * 6 + 1
GPT2_SMALL_TOKENS = 5000 * 256 + 128 * 256
BERT = 5000 * 256 + 128 * 256 + 2 * 256 + norm(256) + 2 * encoder_layer(256) + linear(256, 256) + linear(256, 2)
DCGAN = (
    sum(conv(i, o, 4) for i, o in ((100, 512), (512, 256), (256, 128), (128, 64), (64, 3)))
    + sum(conv(i, o, 4) for i, o in ((3, 64), (64, 128), (128, 256), (256, 512), (512, 1)))
    + sum(map(norm, (512, 256, 128, 64, 128, 256, 512)))
)
WGAN = (
    linear(128, 128 * 64) + norm(128) + conv(128, 128, 3, True) + norm(128) + conv(128, 3, 3, True)
    + conv(3, 64, 3, True) + conv(64, 128, 3, True) + linear(128 * 64, 1)
)  # fmt: skip
TRIMMED = 8000 * 256 + 2 * encoder_layer(256) + lstm(256, 256, gates=3) + linear(256, 2)


@dataclass(frozen=True)
class Case:
    """A script and what must come out. `kernels` and types are sets: which were used, not how often."""

    script: str
    state_bytes: int
    prints: str
    arguments: Sequence[str] = ()
    attention: set[str] = field(default_factory=set)
    matmul: set[str] = field(default_factory=lambda: {"float32"})
    convolution: set[str] = field(default_factory=set)
    recurrent: set[str] = field(default_factory=set)
    gpu: str = "a100"
    note: str = ""

    def __str__(self) -> str:
        return "-".join([self.script.removesuffix(".py"), *([self.note] if self.note else [])])


CASES = [
    Case("tutorial_tensors.py", 0, r"torch.float32 cuda:0\ntensor\(\[\[6., 5., 6., 6.\]"),
    Case(
        "tutorial_net.py",
        MOMENTUM * (linear(784, 512) + linear(512, 512) + linear(512, 10)),
        r"loss: [\d.]+  \[   64/ 6400\]",
    ),
    Case(
        "tutorial_old_amp.py",
        ADAM * (2 * linear(2048, 2048) + linear(2048, 10)),
        r"1: loss [\d.]+, scale 65536, output torch.float16",
        matmul={"float16"},
    ),
    Case(
        "tutorial_accumulation.py",
        ADAM * (linear(1024, 2048) + norm(2048) + linear(2048, 5)),
        r"step 2: loss [\d.]+",
    ),
    Case("tutorial_data_parallel.py", 0, r"input size torch.Size\(\[30, 512\]\) output size torch.Size\(\[30, 2\]\)"),
    Case(
        "nanogpt.py",
        ADAM * NANOGPT + 4 * NANOGPT_TENSORS,
        r"parameters: 124.37M\nusing fused AdamW: True\niter 0: loss",
        attention={"flash"},
        matmul={"bfloat16"},
    ),
    Case(
        "nanogpt.py",
        ADAM * NANOGPT + 4 * NANOGPT_TENSORS,
        "iter 1: loss",
        ["--batch-size", "4", "--dtype", "float16"],
        attention={"efficient"},
        matmul={"float16"},
        gpu="t4",
        note="on-a-t4",
    ),
    Case(
        "nanogpt.py",
        ADAM * NANOGPT + 4 * NANOGPT_TENSORS,
        "iter 1: loss",
        ["--batch-size", "2", "--dtype", "float32", "--compile"],
        attention={"efficient"},
        note="float32-compiled",
    ),
    Case("dcgan.py", ADAM * DCGAN, r"\[0/1\]\[1/10\] Loss_D: ", matmul=set(), convolution={"float32"}),
    Case(
        "vae.py",
        ADAM * (linear(784, 400) + 2 * linear(400, 20) + linear(20, 400) + linear(400, 784)),
        r"Train Epoch: 1 \[0/20\]",
    ),
    Case("word_lstm.py", 0, "", ["--dropout", "0.2"], recurrent={"lstm"}),
    Case(
        "lbfgs_float64.py",
        lbfgs(lstm(1, 51) + lstm(51, 51) + linear(51, 1), iterations=3 * 8),
        r"STEP 1: loss [\d.]+ after 16 closures",
        ["--waves", "50", "--length", "20", "--max-iter", "8"],
        matmul={"float64"},
    ),
    Case(
        "imagenet_resnet50.py",
        MOMENTUM * resnet50(),
        r"Epoch: \[0\]\[2/5\].*Acc@5",
        ["--batch-size", "16"],
        convolution={"float32"},
    ),
    Case(
        "imagenet_resnet50.py",
        MOMENTUM * resnet50(),
        r"Epoch: \[0\]\[2/5\]",
        ["--batch-size", "16", "--amp", "--channels-last", "--workers", "2"],
        matmul={"float16"},
        convolution={"float16"},
        note="amp-workers",
    ),
    Case(
        "hf_trainer.py",
        ADAM * (GPT2_SMALL_TOKENS + 4 * encoder_layer(256) + norm(256)),
        r"'loss': ",
        attention={"efficient"},
    ),
    Case(
        "hf_trainer.py",
        ADAM * BERT,
        r"'loss': ",
        ["--model", "bert", "--layers", "2", "--bf16", "--gradient-checkpointing", "--accumulate", "2"],
        attention={"flash"},  # the mask hides nothing, which transformers sees, and passes none
        matmul={"bfloat16"},
        note="bert-bf16",
    ),
    Case(
        "accelerate_loop.py",
        ADAM * (1000 * 512 + 4 * encoder_layer(512) + linear(512, 20)),
        r"device cuda mixed precision no\nstep 0: loss [\d.]+, synchronised False",
        attention={"efficient"},
    ),
    Case(
        "accelerate_loop.py",
        ADAM * (1000 * 512 + 4 * encoder_layer(512) + linear(512, 20)),
        r"device cuda mixed precision bf16",
        ["--mixed-precision", "bf16", "--accumulate", "1"],
        attention={"flash"},
        matmul={"bfloat16"},
        note="bf16",
    ),
    *(
        Case(
            "timm_train.py",
            MOMENTUM * parameters,
            f"{model}: {parameters:,} parameters, 224 x 224\nstep 0: loss",
            ["--model", model, "--batch-size", "16", *extra],
            attention=attention,
            matmul=matmul,
            convolution=matmul,
            note=model,
        )
        for model, parameters, extra, attention, matmul in (
            ("resnet50", resnet50(), ["--amp", "--channels-last"], set[str](), {"float16"}),
            ("vit_small_patch16_224", 22_050_664, ["--amp"], {"flash"}, {"float16"}),
            ("convnext_tiny", 28_589_128, [], set[str](), {"float32"}),
        )
    ),
    Case(
        "compiled.py",
        ADAM * (4 * (norm(1024) + linear(1024, 4096) + linear(4096, 1024)) + linear(1024, 10)),
        r"step 1: loss",
    ),
    *(
        Case(
            "checkpointing.py",
            ADAM * (4 * encoder_layer(768) + linear(768, 1)),
            r"step 1: loss [\d.]+, peak \d+ MiB",
            ["--layers", "4", "--how", how],
            attention={"efficient"},
            note=how,
        )
        for how in ("block", "reentrant", "sequential")
    ),
    Case(
        "channels_last.py",
        MOMENTUM
        * (conv(3, 64, 3, True) + separable(64, 128) + separable(128, 256) + separable(256, 256) + linear(256, 100)),
        "step 1: loss [0-9.]+, output channels_last True, gradient channels_last True",
        ["--strict"],
        convolution={"float32"},
    ),
    Case(
        "ema_save_best.py",
        ADAM * (linear(32, 512) + norm(512) + linear(512, 2)),
        "",
    ),
    Case(
        "trimmed_tokens.py",
        ADAM * TRIMMED,
        r"step 1: trimmed to 128, 2273 tokens",
        attention={"efficient"},
        recurrent={"gru"},
    ),
    *(
        Case(
            "loader_workers.py",
            MOMENTUM * (conv(3, 32, 3, True) + conv(32, 64, 3, True) + linear(64, 10)),
            "",
            ["--start-method", how],
            convolution={"float32"},
            note=how,
        )
        for how in ("fork", "spawn", "forkserver")
    ),
    *(
        Case(
            "offload_saved.py",
            ADAM * (4 * linear(1024, 1024) + linear(1024, 1)),
            "step 1: loss .*\n.*PyTorch CUDA memory summary, device ID 0",
            ["--width", "1024", "--depth", "4", "--batch-size", "512", "--how", how],
            note=how,
        )
        for how in ("save_on_cpu", "hooks")
    ),
    Case(
        "scaler_clip.py",
        ADAM * (6 * (3 * 2 * 1024 * 1024 + 1024) + linear(1024, 50)),
        "step 1: loss .* scale 131072, logits torch.float16, weights torch.float32",
        matmul={"float16"},
    ),
    Case(
        "swa.py",
        MOMENTUM * (conv(3, 64, 3) + norm(64) + conv(64, 128, 3) + norm(128) + linear(128, 10)),
        "",
        convolution={"float32"},
    ),
    Case("no_optimizer.py", 0, r"step 1: loss [\d.]+, accuracy [\d.]+"),
    Case(
        "no_dataloader.py",
        MOMENTUM * (7 * 4 + linear(68, 256) + linear(256, 256) + linear(256, 1) + 7),  # 7 counters, made on the GPU
        "",
    ),
    Case("wgan_gp.py", ADAM * WGAN, r"1: critic [-\d.]+, generator", convolution={"float32"}),
    Case("amp_recipe.py", 0, "", ["--size", "1024", "--batches", "4"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_script(tmp_path: Path, case: Case) -> None:
    ran = predict(tmp_path, case.script, *case.arguments, gpu=case.gpu)
    assert ran.result["error"] is None, ran.report
    assert (ran.code, ran.result["outcome"], ran.result["steps"]) == (0, "fits", 3), ran.report
    assert ran.result["used_gpu"]
    assert ran.facts["optimizer_state_bytes"] == case.state_bytes
    used = {name: set(ran.facts.get(name, {})) for name in ("attention_kernels", "recurrent_kernels")}
    assert used == {"attention_kernels": case.attention, "recurrent_kernels": case.recurrent}
    assert set(ran.facts.get("matmul_dtypes", {})) == case.matmul
    assert set(ran.facts.get("convolution_dtypes", {})) == case.convolution
    assert re.search(case.prints, ran.stdout), ran.stdout
    assert "nan" not in ran.stdout
    assert "A100" in ran.report or "T4" in ran.report
    assert ran.facts["out_of_memory_caught"] == 0


@pytest.mark.parametrize("catch", ["type", "old-type", "words"])
def test_a_script_that_halves_its_batch_goes_on(tmp_path: Path, catch: str) -> None:
    ran = predict(tmp_path, "oom_halving.py", "--batch-size", "262144", "--catch", catch, gpu="a100-40gb")
    assert (ran.code, ran.result["outcome"], ran.result["steps"]) == (0, "fits", 3), ran.report
    assert "batch 262144 does not fit: CUDA out of memory. Tried to allocate 8.00 GiB." in ran.stdout
    assert "batch 65536: loss" in ran.stdout
    assert ran.facts["out_of_memory_caught"] == 2
    assert "out of memory caught 2 x" in " ".join(ran.report.split())


def test_a_batch_that_does_not_fit(tmp_path: Path) -> None:
    ran = predict(tmp_path, "nanogpt.py", "--batch-size", "48", gpu="a100-40gb")
    assert (ran.code, ran.result["outcome"]) == (1, "out_of_memory")
    assert ran.result["error"]["type"] == "torch.OutOfMemoryError"
    assert ran.result["error"]["file"].endswith("nanogpt.py")
    memory = ran.result["memory"]
    # Logits of 48 x 1024 x 50304 alone, in bfloat16, in float32 and as a gradient, are 24 GiB.
    assert ran.result["needed_bytes"] > memory["usable_bytes"]
    assert ran.result["facts"]["out_of_memory_caught"] == 0
    assert re.search(r"does not fit +needs [\d.]+ GiB, [\d.]+ GiB more than it has", ran.report)
    assert "Traceback" in ran.report  # the script's own, as Python prints it
