"""An exponential moving average of the weights; the best is saved by an atomic replace and loaded again at the end."""

import argparse
import copy
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--samples", type=int, default=2048)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--decay", type=float, default=0.9)
parser.add_argument("--output", default="", help="a folder; empty: a temporary one")
args = parser.parse_args()
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        self.model.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ours, theirs in zip(self.model.state_dict().values(), model.state_dict().values()):
            if ours.dtype.is_floating_point:
                ours.mul_(self.decay).add_(theirs.detach(), alpha=1 - self.decay)
            else:
                ours.copy_(theirs)


x = torch.randn(args.samples, 32)
y = (x[:, :4].sum(1) > 0).long()
train_loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
val_loader = DataLoader(TensorDataset(x[: args.samples // 4], y[: args.samples // 4]), batch_size=args.batch_size)
model = nn.Sequential(
    nn.Linear(32, args.width), nn.BatchNorm1d(args.width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(args.width, 2)
).to(device)
ema = EMA(model, args.decay)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def evaluate(net):
    net.eval()
    correct = total = 0
    with torch.no_grad():
        for a, b in val_loader:
            correct += (net(a.to(device)).argmax(1) == b.to(device)).sum().item()
            total += len(b)
    return correct / total


with tempfile.TemporaryDirectory() as temporary:
    folder = args.output or temporary
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "best.pt")
    best = -1.0
    for epoch in range(args.epochs):
        model.train()
        for a, b in train_loader:
            a, b = a.to(device, non_blocking=True), b.to(device, non_blocking=True)
            loss = F.cross_entropy(model(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)
        accuracy = evaluate(ema.model)
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy of the average {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            torch.save({"ema": ema.model.state_dict(), "optimizer": optimizer.state_dict(), "best": best}, path + ".tmp")
            os.replace(path + ".tmp", path)

    assert os.path.exists(path) and not os.path.exists(path + ".tmp")
    checkpoint = torch.load(path, map_location=device)
    model.load_state_dict(checkpoint["ema"])
    print(f"best {checkpoint['best']:.4f}, loaded {evaluate(model):.4f}, {os.path.getsize(path)} bytes")
