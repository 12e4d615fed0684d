"""What a finding says a change saves is what the same script saves once it is changed so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from command import environment

pytestmark = pytest.mark.integration

SCRIPT = """
import contextlib, sys
import torch
from torch import nn

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = Norm(), nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x))))

if "norm" in sys.argv:
    Norm.forward = torch.compile(Norm.forward)
loss_fn = nn.functional.cross_entropy
if "loss" in sys.argv:
    loss_fn = torch.compile(loss_fn)
model = nn.Sequential(nn.Embedding(50304, 512), Block(), Block(), nn.Linear(512, 50304, bias=False)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True if "fused" in sys.argv else None)
tokens = torch.zeros(8192, dtype=torch.long, device="cuda")
half = torch.autocast("cuda", dtype=torch.bfloat16, enabled="float32" not in sys.argv)
for step in range(3):
    with half:
        loss = loss_fn(model(tokens), tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

Run = Callable[..., tuple[float, dict[str, float]]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`run(*words)`: the step of the script with these arguments, in seconds, and the savings by code."""
    folder = tmp_path_factory.mktemp("replays")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    known: dict[tuple[str, ...], tuple[float, dict[str, float]]] = {}

    def once(*words: str) -> tuple[float, dict[str, float]]:
        if words not in known:
            command = [sys.executable, "-m", "flatout", "predict", "--gpu", "a100", "--json", "out.json", "train.py"]
            ran = subprocess.run(
                [*command, *words],
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            told: dict[str, Any] = json.loads((folder / "out.json").read_text("utf-8"))
            savings = {one["code"]: one["saving"]["seconds_per_step"] for one in told["findings"]}
            known[words] = told["results"][0]["time"]["step_seconds"], savings
        return known[words]

    return once


@pytest.mark.parametrize(("code", "word"), [("FO610", "fused"), ("FO611", "loss"), ("FO612", "norm")])
def test_the_changed_script_is_as_much_faster_as_was_said(run: Run, code: str, word: str) -> None:
    before, savings = run()
    after, savings_after = run(word)
    assert savings[code] == pytest.approx(before - after, rel=0.02)
    assert code not in savings_after


def test_autocast_saves_at_least_what_was_said(run: Run) -> None:
    """It also makes what lies between products smaller, so more; but products are most of it."""
    before, savings = run("float32")
    after, savings_after = run()
    assert 0.7 * (before - after) < savings["FO415"] <= before - after
    assert "FO415" not in savings_after
