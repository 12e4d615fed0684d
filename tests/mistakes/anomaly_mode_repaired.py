"""A search for NaN that was never taken out again (C7)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(24)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(100):
    inputs = torch.randn(64, 64)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
