import json

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class JsonlDataset(Dataset):
    """About 3M lines of {"input_ids": [...], "label": int}."""

    def __init__(self, path, max_len=512):
        self.max_len = max_len
        self.buffer = np.fromfile(path, dtype=np.uint8)
        self.ends = np.flatnonzero(self.buffer == ord("\n")) + 1

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        start = self.ends[index - 1] if index > 0 else 0
        sample = json.loads(self.buffer[start:self.ends[index]].tobytes())
        ids = torch.tensor(sample["input_ids"][:self.max_len], dtype=torch.long)
        return ids, sample["label"]


def collate(batch):
    ids, labels = zip(*batch)
    return pad_sequence(ids, batch_first=True), torch.tensor(labels)


def make_loader(path, batch_size):
    return DataLoader(
        JsonlDataset(path),
        batch_size=batch_size,
        shuffle=True,
        num_workers=16,
        collate_fn=collate,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )
