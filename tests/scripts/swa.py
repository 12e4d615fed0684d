"""Stochastic weight averaging: AveragedModel, SWALR, and batch norm statistics computed again at the end."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--image-size", type=int, default=32)
parser.add_argument("--images", type=int, default=512)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--swa-start", type=int, default=1)
parser.add_argument("--ema", action="store_true", help="an exponential average, updated at every step")
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

data = TensorDataset(torch.randn(args.images, 3, args.image_size, args.image_size), torch.arange(args.images) % 10)
loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
w = args.width
model = nn.Sequential(
    nn.Conv2d(3, w, 3, padding=1, bias=False),
    nn.BatchNorm2d(w),
    nn.ReLU(),
    nn.Conv2d(w, 2 * w, 3, 2, 1, bias=False),
    nn.BatchNorm2d(2 * w),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(2 * w, 10),
).to(device)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99)) if args.ema else AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=1)

for epoch in range(args.epochs):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if args.ema:
            average.update_parameters(model)
    if epoch >= args.swa_start:
        if not args.ema:
            average.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}, learning rate {optimizer.param_groups[0]['lr']:.4f}")

update_bn(loader, average, device=device)
average.eval()
with torch.no_grad():
    out = average(data.tensors[0][: args.batch_size].to(device))
print(f"averaged {int(average.n_averaged)} times, output {tuple(out.shape)}")
