"""A convnet in channels_last: model and input converted, and the layout asserted where it must have survived."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--image-size", type=int, default=128)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--strict", action="store_true", help="fail where the layout is lost")
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


class Separable(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.depthwise = nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False)
        self.bn1 = nn.BatchNorm2d(i)
        self.pointwise = nn.Conv2d(i, o, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)

    def forward(self, x):
        x = F.silu(self.bn1(self.depthwise(x)))
        return F.silu(self.bn2(self.pointwise(x)))


w = args.width
body = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1), Separable(w, 2 * w), Separable(2 * w, 4 * w, 2), Separable(4 * w, 4 * w))
model = nn.ModuleDict({"body": body, "head": nn.Linear(4 * w, 100)}).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for step in range(args.steps):
    x = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device=device)
    x = x.to(memory_format=torch.channels_last)
    y = torch.randint(0, 100, (args.batch_size,), device=device)
    features = model["body"](x)
    kept = features.is_contiguous(memory_format=torch.channels_last)
    if args.strict:
        assert kept, features.stride()
    loss = F.cross_entropy(model["head"](features.mean((2, 3))), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    weight = model["body"][0].weight
    grad_kept = weight.grad.is_contiguous(memory_format=torch.channels_last)
    print(f"step {step}: loss {loss.item():.4f}, output channels_last {kept}, gradient channels_last {grad_kept}")
