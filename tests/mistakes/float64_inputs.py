"""NumPy's default dtype, carried into the model (D11)."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
chance = np.random.default_rng(0)
inputs = torch.from_numpy(chance.standard_normal((64 * 60, 512)))
targets = torch.from_numpy(chance.standard_normal((64 * 60, 1)))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    rows = slice(64 * step, 64 * step + 64)
    loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])  # mistake: FO412
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
