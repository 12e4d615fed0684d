"""Items that take their time, made between the steps by the training process itself (D1)."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, number):
        time.sleep(0.001)  # reading from a network file system
        return torch.full((128,), number / 640), number % 10


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Slow(), batch_size=16, shuffle=True)
    for epoch in range(3):
        for x, y in loader:  # mistake: FO304
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
