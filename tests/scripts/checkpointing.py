"""Activation checkpointing of a deep stack: by block, by sequence, or not at all, to compare the peaks."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["none", "block", "reentrant", "sequential"], default="block")
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--length", type=int, default=512)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
        self.attention = nn.MultiheadAttention(args.width, args.heads, dropout=args.dropout, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(args.width, 4 * args.width),
            nn.ReLU(),
            nn.Dropout(args.dropout),
            nn.Linear(4 * args.width, args.width),
        )

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(args.layers)])
        self.head = nn.Linear(args.width, 1)

    def forward(self, x):
        if args.how == "sequential":
            x = checkpoint_sequential(self.blocks, max(1, args.layers // 3), x, use_reentrant=False)
        else:
            for block in self.blocks:
                if args.how == "none":
                    x = block(x)
                else:
                    x = checkpoint(block, x, use_reentrant=args.how == "reentrant")
        return self.head(x).squeeze(-1)


model = Stack().to(device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(args.steps):
    # The reentrant kind needs an input that asks for a gradient.
    x = torch.randn(args.batch_size, args.length, args.width, device=device).requires_grad_(args.how == "reentrant")
    loss = F.smooth_l1_loss(model(x), torch.zeros(args.batch_size, args.length, device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    peak = f", peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB" if device.type == "cuda" else ""
    print(f"step {step}: loss {loss.item():.4f}{peak}")
