"""torch.compile around a model, or around the loss as well with --compile-loss; `fullgraph` and `dynamic` as people pass them."""

import argparse
import io

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--mode", default=None, choices=["default", "reduce-overhead", "max-autotune"])
parser.add_argument("--backend", default="inductor")
parser.add_argument("--fullgraph", action="store_true")
parser.add_argument("--dynamic", action="store_true", help="the last batch is smaller")
parser.add_argument("--compile-loss", action="store_true")
args = parser.parse_args()
how = {"backend": args.backend, "fullgraph": args.fullgraph}
if args.mode is not None:
    how["mode"] = args.mode
if args.dynamic:
    how["dynamic"] = True

torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


model = nn.Sequential(*[Residual(args.width) for _ in range(args.depth)], nn.Linear(args.width, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
forward = model if args.compile_loss else torch.compile(model, **how)


def loss_of(x, y):
    return F.cross_entropy(forward(x), y, label_smoothing=0.1)


if args.compile_loss:
    loss_of = torch.compile(loss_of, **how)

for step in range(args.steps):
    size = args.batch_size // 2 if args.dynamic and step == args.steps - 1 else args.batch_size
    x = torch.randn(size, args.width, device=device)
    y = torch.randint(0, 10, (size,), device=device)
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
file = io.BytesIO()
torch.save(getattr(forward, "_orig_mod", forward).state_dict(), file)
print(f"saved {file.tell()} bytes, {sum(p.numel() for p in model.parameters())} parameters")
