"""Training with a validation pass after each epoch (M6)."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
inputs, labels = torch.randn(64 * 20, 128), torch.randint(0, 10, (64 * 20,))
held_out, held_out_labels = torch.randn(2048, 128), torch.randint(0, 10, (2048,))


def validate():
    model.eval()
    total = 0
    outputs = []
    for rows in range(0, 2048, 256):
        output = model(held_out[rows : rows + 256])  # mistake: FO502
        outputs.append(output)
        total += (output.argmax(1) == held_out_labels[rows : rows + 256]).sum().item()
    return total / 2048


for epoch in range(5):
    model.train()
    for step in range(20):
        rows = slice(64 * step, 64 * step + 64)
        loss = criterion(model(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: accuracy {validate():.3f}")
