"""Half precision without anything that keeps small gradients from vanishing (P2)."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(60):
    inputs, labels = torch.randn(64, 256, device=device), torch.randint(0, 10, (64,), device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()  # mistake: FO405
    optimizer.step()
print(f"loss {loss.item():.3f}")
