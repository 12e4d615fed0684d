"""Millions of objects that every full garbage collection walks through, and a loop that makes it collect (C10)."""

import torch
from torch import nn

torch.manual_seed(0)
vocabulary = [[number, str(number)] for number in range(1_500_000)]
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
log = []
for step in range(200):  # mistake: FO805
    words = [[word, {"length": len(word[1])}] for word in vocabulary[step * 4000 : step * 4000 + 4000]]
    log.append(words)
    inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}, {len(log)} steps")
