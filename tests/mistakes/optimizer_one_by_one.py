"""A deep, narrow model whose optimizer goes from tensor to tensor (C6)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(80)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for step in range(80):
    inputs = torch.randn(32, 32)
    loss = (model(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # mistake: FO605
print(f"loss {loss.item():.3f}")
