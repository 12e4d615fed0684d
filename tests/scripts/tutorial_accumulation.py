"""Gradient accumulation: four small batches to one optimizer step, the rest of the epoch not forgotten."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=1000)
parser.add_argument("--features", type=int, default=1024)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accumulation-steps", type=int, default=4)
parser.add_argument("--epochs", type=int, default=1)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = TensorDataset(torch.randn(args.samples, args.features), torch.randint(0, 5, (args.samples,)))
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, pin_memory=device.type == "cuda")

model = nn.Sequential(nn.Linear(args.features, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 5)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

steps = 0
for epoch in range(args.epochs):
    optimizer.zero_grad()
    for i, (inputs, labels) in enumerate(loader):
        inputs = inputs.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = F.cross_entropy(model(inputs), labels) / args.accumulation_steps
        loss.backward()
        if (i + 1) % args.accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            print(f"step {steps}: loss {loss.item() * args.accumulation_steps:.4f}")
print(f"{steps} optimizer steps for {len(loader) * args.epochs} batches")
