"""The mean over the rows that a mask selects, in every step (S3). Needs a GPU, or a predicted one."""

import random

import torch
from torch import nn

torch.manual_seed(0)
chance = random.Random(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(4096, 4096), nn.ReLU()) for _ in range(8)), nn.Linear(4096, 16)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
inputs, labels = torch.randn(2048, 4096, device="cuda"), torch.randint(0, 16, (2048,), device="cuda")


def priorities():
    # A replay buffer's, kept in Python: some milliseconds of the host's own work between the steps.
    return sorted(chance.random() for _ in range(20_000))[:16]


hardest = torch.zeros((), device="cuda")
for step in range(6):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        each = nn.functional.cross_entropy(model(inputs), labels, reduction="none")
    optimizer.zero_grad()
    each.mean().backward()
    optimizer.step()
    each = each.detach()
    hardest += each[each > 1.0].sum()  # mistake: FO104
    priorities()
print(f"loss {float(hardest):.3f}")
