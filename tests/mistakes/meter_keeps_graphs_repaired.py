"""A classifier with an average meter, as in many published training scripts (M2)."""

import torch
from torch import nn


class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def average(self):
        return self.sum / self.count


def train():
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
    model = nn.Sequential(features, nn.Flatten(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    losses = AverageMeter()
    for step in range(120):
        images, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        loss = criterion(model(images), labels)
        losses.update(loss.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {float(losses.average):.3f}")


train()
