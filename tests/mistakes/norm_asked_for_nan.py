"""A step that is left out when the norm of the gradients is not a number (S5). Needs a GPU, or a predicted one."""

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


for step in range(6):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not norm.isnan():  # mistake: FO101
        optimizer.step()
    priorities()
print(f"loss {loss.item():.3f}")
