"""Train a small GPT on the source of Python's own standard library: `train.py` with flatout's Loop."""

import argparse
import math
import sysconfig
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import flatout


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, block, layers, heads, width, dropout):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(block, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.init)
        for name, p in self.named_parameters():
            if name.endswith("proj.weight") or name.endswith("mlp.2.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers))
        self.head.weight = self.tokens.weight

    @staticmethod
    def init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, ids, count, block):
        for _ in range(count):
            logits, _ = self(ids[:, -block:])
            probabilities = F.softmax(logits[:, -1].float() / 0.8, dim=-1)
            ids = torch.cat([ids, torch.multinomial(probabilities, 1)], dim=1)
        return ids


def load_text(limit):
    """The first `limit` characters of the standard library, file by file in order of their names."""
    parts, total = [], 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        text = "".join(c for c in text if c in "\n\t" or 32 <= ord(c) < 127)
        parts.append(text)
        total += len(text)
        if total >= limit:
            break
    return "".join(parts)[:limit]


def get_batch(data, args):
    starts = torch.randint(len(data) - args.block - 1, (args.batch_size,)).tolist()
    x = torch.stack([data[i : i + args.block] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + args.block] for i in starts])
    return x, y


def learning_rate(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


def evaluate(loop, model, data, args, batches=8):
    with loop.evaluation():
        for _ in range(batches):
            _, loss = model(*loop.move(get_batch(data, args)))
            loop.log(loss=loss)
    return loop.metrics()["loss"]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--eval-every", type=int, default=100)
    parser.add_argument("--characters", type=int, default=2_000_000)
    parser.add_argument("--no-amp", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--checkpoint", default="chargpt-checkpoints", help="a folder")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint if there is one in it")
    parser.add_argument("--sample", type=int, default=0, help="characters to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    loop = flatout.Loop(
        device=args.device,
        precision="tf32" if args.no_amp else "auto",
        accumulate=args.accumulate,
        clip_norm=args.clip,
    )

    text = load_text(args.characters)
    characters = sorted(set(text))
    to_id = {c: i for i, c in enumerate(characters)}
    data = torch.tensor([to_id[c] for c in text], dtype=torch.long)
    held_out = len(data) // 10
    train_data, val_data = data[:-held_out], data[-held_out:]

    model = GPT(len(characters), args.block, args.layers, args.heads, args.width, args.dropout)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=1.0,  # times what the schedule says
        betas=(0.9, 0.95),
    )
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, args))
    model, optimizer, scheduler = loop.prepare(model, optimizer, scheduler)
    loop.print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {loop.device}, {len(text):,} characters")

    best = float("inf")
    if args.resume and loop.resume(args.checkpoint):
        best = loop.extra["best"]
        loop.print(f"resumed at step {loop.optimizer_steps}, best val loss {best:.4f}")

    started = time.perf_counter()
    for step in range(loop.optimizer_steps, args.steps):
        for _ in range(args.accumulate):
            with loop.step(samples=args.batch_size):
                _, loss = model(*loop.move(get_batch(train_data, args)))
                train_loss = loop.backward(loss)

        if (step + 1) % args.eval_every == 0 or step + 1 == args.steps:
            val_loss = evaluate(loop, model, val_data, args)
            seconds = time.perf_counter() - started
            loop.print(f"step {step + 1}: train loss {train_loss:.4f}, val loss {val_loss:.4f}, {seconds:.1f} s")
            if val_loss < best:
                best = val_loss
                loop.save(args.checkpoint, keep=1, best=best)

    if args.sample:
        with loop.evaluation():
            start = torch.tensor([[to_id["\n"]]], device=loop.device)
            written = loop.unwrap(model).generate(start, args.sample, args.block)[0].tolist()
        loop.print("".join(characters[i] for i in written))


if __name__ == "__main__":
    main()
