import json

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class SpeechDataset(Dataset):
    def __init__(self, manifest):
        with open(manifest) as f:
            items = json.load(f)
        self.paths = np.array([it["feat"] for it in items])
        self.labels = np.array([it["label"] for it in items], dtype=np.int64)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        feat = torch.from_numpy(np.load(self.paths[i]).astype(np.float32))
        label = torch.tensor(int(self.labels[i]))
        return feat, label


torch.set_float32_matmul_precision("high")
loader = DataLoader(SpeechDataset("train.json"), batch_size=32, shuffle=True, num_workers=4,
                    pin_memory=True)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(80 * 100, 35)).cuda()
opt = torch.optim.Adam(net.parameters())
for feat, label in loader:
    feat, label = feat.cuda(non_blocking=True), label.cuda(non_blocking=True)
    loss = torch.nn.functional.cross_entropy(net(feat), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
