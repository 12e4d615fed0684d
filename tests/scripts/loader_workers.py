"""DataLoader workers, forked or spawned, with pinned memory, persistent workers, a worker_init_fn and a seeded sampler."""

import argparse
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Augmented(Dataset):
    """Work that belongs on the CPU: made, flipped and normalised there, in float32."""

    def __init__(self, count, size):
        self.count, self.size, self.parent = count, size, os.getpid()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        assert (get_worker_info() is None) == (os.getpid() == self.parent)
        image = np.random.default_rng(index).random((3, self.size, self.size), dtype=np.float32)
        if index % 2:
            image = image[:, :, ::-1].copy()
        image = torch.from_numpy(image)
        return (image - image.mean()) / image.std(), index % 10


def init_worker(worker_id):
    np.random.seed(torch.initial_seed() % 2**32)
    torch.set_num_threads(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start-method", choices=["fork", "spawn", "forkserver"], default="fork")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--images", type=int, default=320)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    loader = DataLoader(
        Augmented(args.images, args.image_size),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=device.type == "cuda",
        persistent_workers=args.workers > 0,
        prefetch_factor=2 if args.workers else None,
        worker_init_fn=init_worker,
        multiprocessing_context=args.start_method if args.workers else None,
        generator=torch.Generator().manual_seed(0),
    )
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1)
    )
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(args.epochs):
        for images, labels in loader:
            assert images.device.type == "cpu" and images.dtype == torch.float32
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {len(loader)} batches from {args.workers} workers, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
