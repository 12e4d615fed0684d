"""A number made on the host and sent to the GPU in every step (S4). Needs a GPU, or a predicted one."""

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
    smoothing = torch.tensor(0.01 * step, device="cuda")  # mistake: FO107
    priorities()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = model(inputs)
        loss = (1 - smoothing) * nn.functional.cross_entropy(output, labels) + smoothing * output.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
