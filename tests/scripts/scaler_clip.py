"""Accumulated gradients under a GradScaler, unscaled before they are clipped; steps with infinite gradients are skipped."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--depth", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--accumulate", type=int, default=4)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--max-norm", type=float, default=1.0)
parser.add_argument("--growth-interval", type=int, default=2)
args = parser.parse_args()
use_cuda = torch.cuda.is_available()
device = "cuda" if use_cuda else "cpu"
dtype = torch.float16 if use_cuda else torch.bfloat16


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


model = nn.Sequential(*[Gated(args.width) for _ in range(args.depth)], nn.Linear(args.width, 50)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device, init_scale=2.0**16, growth_interval=args.growth_interval, enabled=use_cuda)
taken = 0
for step in range(args.steps):
    total = 0.0
    for _ in range(args.accumulate):
        x = torch.randn(args.batch_size, args.width, device=device)
        y = torch.randint(0, 50, (args.batch_size,), device=device)
        with torch.autocast(device_type=device, dtype=dtype):
            logits = model(x)
            loss = F.cross_entropy(logits, y) / args.accumulate
        scaler.scale(loss).backward()
        total += loss.detach()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if scaler.get_scale() >= before:
        taken += 1
    print(
        f"step {step}: loss {total.item():.4f}, norm {norm.item():.3f}, scale {scaler.get_scale():.0f}, "
        f"logits {logits.dtype}, weights {model[0].gate.weight.dtype}"
    )
print(f"{taken} of {args.steps} steps taken, state for {len(optimizer.state)} parameters")
