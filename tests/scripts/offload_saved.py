"""Activations parked in host memory between forward and backward: torch.autograd.graph.save_on_cpu, and own pack hooks."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["none", "save_on_cpu", "hooks"], default="save_on_cpu")
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--depth", type=int, default=12)
parser.add_argument("--batch-size", type=int, default=4096)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

layers = []
for _ in range(args.depth):
    layers += [nn.Linear(args.width, args.width), nn.Tanh()]
model = nn.Sequential(*layers, nn.Linear(args.width, 1)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)


def pack(tensor):
    if isinstance(tensor, nn.Parameter) or tensor.numel() < 1024:
        return tensor
    return (tensor.device, tensor.cpu())


def unpack(packed):
    return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed


def saved_tensors():
    if args.how == "save_on_cpu":
        return torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda")
    if args.how == "hooks":
        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
    return torch.enable_grad()


for step in range(args.steps):
    x = torch.randn(args.batch_size, args.width, device=device)
    y = torch.randn(args.batch_size, 1, device=device)
    with saved_tensors():
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")
    if device.type == "cuda":
        print(torch.cuda.memory_summary(abbreviated=True).splitlines()[1].strip())
