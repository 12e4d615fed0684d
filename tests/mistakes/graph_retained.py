"""Two losses of one network, where the second backward pass was once thought to need the graph (M5)."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 128))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3, fused=True)

history = []
for step in range(80):
    inputs = torch.randn(128, 128)
    loss = (encoder(inputs) - inputs).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # mistake: FO503
    optimizer.step()
    history.append(loss)  # mistake: FO501
print(f"loss {float(history[-1]):.4f}")
