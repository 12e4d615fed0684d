"""Mixed precision in the spelling of older pages: torch.cuda.amp, with `enabled` so that it also runs without a GPU."""

import argparse
import time
import warnings

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

warnings.filterwarnings("ignore", category=FutureWarning)  # the old names say that they are old

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--iterations", type=int, default=20)
args = parser.parse_args()

use_cuda = torch.cuda.is_available()
device = "cuda:0" if use_cuda else "cpu"

model = nn.Sequential(
    nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 10)
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss()
scaler = GradScaler(enabled=use_cuda)

started = time.time()
for i in range(args.iterations):
    data = torch.randn(args.batch_size, args.width).to(device)
    target = torch.randint(0, 10, (args.batch_size,)).to(device)
    optimizer.zero_grad()
    with autocast(enabled=use_cuda):
        output = model(data)
        loss = criterion(output, target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"{i}: loss {loss.item():.4f}, scale {scaler.get_scale():.0f}, output {output.dtype}")
if use_cuda:
    torch.cuda.synchronize()
    print("peak", torch.cuda.max_memory_allocated())
print(f"{time.time() - started:.2f} s")
