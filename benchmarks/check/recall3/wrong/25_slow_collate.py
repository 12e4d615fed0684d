import numpy as np
import torch
from torch.utils.data import DataLoader


def collate(batch):
    frames, actions = zip(*batch)  # frames: float32 ndarrays of one size
    x = torch.tensor([np.asarray(f) for f in frames])
    y = torch.tensor(actions, dtype=torch.long)
    return x, y


def get_loader(dataset, batch_size=64, workers=4):
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        collate_fn=collate,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=True,
    )
