"""Training steps of a GPT-2 of 124 million parameters on random tokens, compiled or not.

An ordinary script: it needs torch, and knows nothing of flatout. `--attention written` has scores and softmax written
out, `fused` is PyTorch's `scaled_dot_product_attention`. `--apart` keeps the activation out of compiled regions.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=12)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--vocabulary", type=int, default=50304)
parser.add_argument("--attention", choices=("written", "fused"), default="fused")
parser.add_argument("--optimizer", choices=("loop", "foreach", "fused"), default="fused")
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--apart", action="store_true")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
LAYERS, HEADS, WIDTH = 12, 12, 768
torch.backends.cuda.matmul.allow_tf32 = True


def activation(x):
    return F.gelu(x, approximate="tanh")


if args.apart:
    activation = torch.compiler.disable(activation)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(args.length, args.length).tril()[None, None], persistent=False)

    def attend(self, x):
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(WIDTH, dim=2))
        if args.attention == "fused":
            mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=args.dropout, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(shape[-1]))
            mixed = scores.masked_fill(self.mask == 0, float("-inf")).softmax(dim=-1)
            mixed = F.dropout(mixed, args.dropout) @ v
        return F.dropout(self.out(mixed.transpose(1, 2).reshape(x.shape)), args.dropout)

    def forward(self, x):
        x = x + self.attend(self.before(x))
        return x + F.dropout(self.down(activation(self.up(self.between(x)))), args.dropout)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, WIDTH)
        self.positions = nn.Embedding(args.length, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, args.vocabulary, bias=False)

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = F.dropout(self.tokens(tokens) + self.positions(places), args.dropout)
        x = self.norm(self.blocks(x))
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


model = Model().cuda()
kinds = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
optimizer = torch.optim.AdamW(
    model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, **kinds[args.optimizer]
)
if args.compile:
    model = torch.compile(model)
tokens = torch.randint(args.vocabulary, (args.batch_size, args.length + 1), device="cuda")
torch.cuda.synchronize()
for _ in range(args.steps):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    loss.item()
    torch.cuda.synchronize()
print(f"{args.steps} steps")
