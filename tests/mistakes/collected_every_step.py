"""A loop that tidies up after every step (C9)."""

import gc

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gc.collect()  # mistake: FO504
    torch.cuda.empty_cache()
print(f"loss {loss.item():.3f}")
