"""A compiled model that meets texts of many lengths (C4)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
compiled = torch.compile(model, dynamic=False, backend="aot_eager")
for step in range(60):
    inputs = torch.randn(16 + 4 * (step % 12), 64)
    loss = (compiled(inputs) - inputs).square().mean()  # mistake: FO601
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
