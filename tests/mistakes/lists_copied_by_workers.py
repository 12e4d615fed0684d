"""A data set that keeps its index as Python objects; every worker that touches them copies them (M7)."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, count):
        chance = np.random.default_rng(0)
        first, second = chance.integers(0, 1000, count), chance.random(count)
        self.index = [(int(a), float(b)) for a, b in zip(first, second)]  # mistake: FO310

    def __len__(self):
        return len(self.index) // 100

    def __getitem__(self, number):
        rows = self.index[100 * number : 100 * number + 100]
        values = torch.tensor([b for _, b in rows], dtype=torch.float32)
        return values, rows[0][0] % 10


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Pairs(1_000_000), batch_size=50, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
