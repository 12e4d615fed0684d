import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()

torch.set_float32_matmul_precision("high")
device = torch.device("cuda")
train_set = datasets.FashionMNIST("data", download=True, transform=transforms.ToTensor())
loader = DataLoader(train_set, batch_size=256, shuffle=True, num_workers=4,
                    pin_memory=True, persistent_workers=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
criterion = nn.CrossEntropyLoss()

for epoch in range(args.epochs):
    running_loss = 0.0
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f"epoch {epoch}: {running_loss / len(loader):.4f}")
