"""Two processes that accumulate gradients and exchange them after every micro-batch (X3). Started by torchrun."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)

ACCUMULATE = 4
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(16)))
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05)
for step in range(30):
    for micro in range(ACCUMULATE):
        inputs = torch.randn(8, 256)
        with contextlib.nullcontext():
            loss = (wrapped(inputs) - inputs).square().mean() / ACCUMULATE
            loss.backward()  # mistake: FO703
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print(f"loss {loss.item():.3f}")
del wrapped
dist.destroy_process_group()
