import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_float32_matmul_precision("high")
device = torch.device("cuda")


class SpectrogramDataset(Dataset):
    def __init__(self, prefix):
        self.spec = np.load(prefix + "_spec.npy", mmap_mode="r")
        self.label = torch.from_numpy(np.load(prefix + "_label.npy"))

    def __len__(self):
        return self.spec.shape[0]

    def __getitem__(self, index):
        x = torch.from_numpy(self.spec[index].astype(np.float32))
        x = torch.log1p(x)
        return x.to(device), self.label[index].to(device)


train_loader = DataLoader(
    SpectrogramDataset("esc50/train"),
    batch_size=64,
    shuffle=True,
    num_workers=4,
    persistent_workers=True,
)

model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(128 * 216, 512), nn.ReLU(), nn.Dropout(0.3),
    nn.Linear(512, 50),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
loss_func = nn.CrossEntropyLoss()

for epoch in range(60):
    epoch_loss = torch.zeros((), device=device)
    for spec, label in train_loader:
        optimizer.zero_grad()
        loss = loss_func(model(spec), label)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.detach()
    print("epoch", epoch, "loss", epoch_loss.item() / len(train_loader))
