"""Every worker computes with as many threads as there are cores (D6)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, number):
        image = torch.randn(3, 96, 96, generator=torch.Generator().manual_seed(number))
        return nn.functional.interpolate(image[None], size=160, mode="bicubic")[0].sin().mean(0), number % 10


def many_threads(number):
    torch.set_num_threads(4)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(160 * 160, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(  # mistake: FO313
        Augmented(), batch_size=16, num_workers=4, persistent_workers=True, worker_init_fn=many_threads
    )
    for epoch in range(5):
        for x, y in loader:  # mistake: FO313
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
