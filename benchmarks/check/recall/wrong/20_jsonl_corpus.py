import json

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class JsonlDataset(Dataset):
    """About 3M lines of {"input_ids": [...], "label": int}."""

    def __init__(self, path, max_len=512):
        self.max_len = max_len
        with open(path) as f:
            self.samples = [json.loads(line) for line in f]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        sample = self.samples[index]
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
