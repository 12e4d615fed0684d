"""Train a small GPT, character by character, on the source of Python's own standard library."""

import argparse
import math
import os
import sysconfig
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


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
    if args.device_type == "cuda":
        return x.pin_memory().to(args.device, non_blocking=True), y.pin_memory().to(args.device, non_blocking=True)
    return x.to(args.device), y.to(args.device)


def learning_rate(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.no_grad()
def evaluate(model, data, args, autocast, batches=8):
    model.eval()
    total = 0.0
    for _ in range(batches):
        x, y = get_batch(data, args)
        with autocast:
            _, loss = model(x, y)
        total += loss.item()
    model.train()
    return total / batches


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
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", default="chargpt.pt")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint if it is there")
    parser.add_argument("--sample", type=int, default=0, help="characters to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.device_type = args.device.split(":")[0]
    return args


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = True

    text = load_text(args.characters)
    characters = sorted(set(text))
    to_id = {c: i for i, c in enumerate(characters)}
    data = torch.tensor([to_id[c] for c in text], dtype=torch.long)
    held_out = len(data) // 10
    train_data, val_data = data[:-held_out], data[-held_out:]

    # bfloat16 where the GPU has it, else float16 with a scaler. A CPU is faster without either.
    use_amp = args.device_type == "cuda" and not args.no_amp
    has_bfloat16 = use_amp and torch.cuda.is_bf16_supported(including_emulation=False)
    dtype = torch.bfloat16 if has_bfloat16 else torch.float16
    autocast = torch.autocast(args.device_type, dtype=dtype) if use_amp else nullcontext()
    scaler = torch.amp.GradScaler(args.device_type, enabled=use_amp and dtype == torch.float16)

    model = GPT(len(characters), args.block, args.layers, args.heads, args.width, args.dropout).to(args.device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.95),
        fused=args.device_type == "cuda",
    )
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {args.device}, {len(text):,} characters")

    first, best = 0, float("inf")
    if args.resume and os.path.exists(args.checkpoint):
        checkpoint = torch.load(args.checkpoint, map_location=args.device)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scaler.load_state_dict(checkpoint["scaler"])
        first, best = checkpoint["step"], checkpoint["best"]
        print(f"resumed at step {first}, best val loss {best:.4f}")

    started = time.perf_counter()
    model.train()
    for step in range(first, args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        for _ in range(args.accumulate):
            x, y = get_batch(train_data, args)
            with autocast:
                _, loss = model(x, y)
                loss = loss / args.accumulate
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

        if (step + 1) % args.eval_every == 0 or step + 1 == args.steps:
            train_loss = loss.item() * args.accumulate
            val_loss = evaluate(model, val_data, args, autocast)
            seconds = time.perf_counter() - started
            print(f"step {step + 1}: train loss {train_loss:.4f}, val loss {val_loss:.4f}, {seconds:.1f} s")
            if val_loss < best:
                best = val_loss
                checkpoint = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scaler": scaler.state_dict(),
                    "step": step + 1,
                    "best": best,
                }
                torch.save(checkpoint, args.checkpoint)

    if args.sample:
        model.eval()
        start = torch.tensor([[to_id["\n"]]], device=args.device)
        written = model.generate(start, args.sample, args.block)[0].tolist()
        print("".join(characters[i] for i in written))


if __name__ == "__main__":
    main()
