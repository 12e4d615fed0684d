"""The norm of every gradient, each read on its own in every step (S2). Needs a GPU, or a predicted one."""

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


norms = []
for step in range(6):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    norms.append(torch.stack(torch._foreach_norm([parameter.grad for parameter in model.parameters()])))
    priorities()
print(f"{len(norms)} steps")
