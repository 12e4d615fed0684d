from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from eegnet import EEGNet

device = torch.device("cuda")


class WindowDataset(Dataset):
    def __init__(self, root):
        self.files = np.array(sorted(str(p) for p in Path(root).glob("*.npz")))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, idx):
        with np.load(self.files[idx]) as rec:
            signal = rec["signal"].astype(np.float32)
            label = int(rec["label"])
        signal = (signal - signal.mean(axis=1, keepdims=True)) / (signal.std(axis=1, keepdims=True) + 1e-6)
        return torch.from_numpy(signal), label


def main():
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    ds = WindowDataset("bci/train")
    dl = DataLoader(ds, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True,
                    pin_memory=True, drop_last=True)
    model = EEGNet(channels=22, classes=4).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(100):
        model.train()
        total = torch.zeros((), device=device)
        for signal, label in dl:
            signal = signal.to(device, non_blocking=True)
            label = label.to(device, non_blocking=True)
            loss = loss_fn(model(signal), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        print(epoch, total.item() / len(dl))


if __name__ == "__main__":
    main()
