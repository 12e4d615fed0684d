"""A collate function that gives PyTorch a list of NumPy arrays (D5)."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Arrays(Dataset):
    def __init__(self):
        self.rows = np.random.default_rng(0).random((640, 32, 32), dtype=np.float32)

    def __len__(self):
        return 640

    def __getitem__(self, number):
        return self.rows[number], number % 10


def collate(samples):
    rows, labels = zip(*samples)
    return torch.tensor(rows), torch.tensor(labels)  # mistake: FO308


torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Arrays(), batch_size=32, shuffle=True, collate_fn=collate)
for epoch in range(5):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
