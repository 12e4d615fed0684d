"""A perceptron whose epoch loss is summed up for the log (M1)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
inputs, labels = torch.randn(64 * 150, 256), torch.randint(0, 10, (64 * 150,))

running = 0.0
for step in range(150):
    rows = slice(64 * step, 64 * step + 64)
    optimizer.zero_grad()
    loss = criterion(model(inputs[rows]), labels[rows])
    loss.backward()
    optimizer.step()
    running += loss.detach()
print(f"mean loss {float(running) / 150:.3f}")
