"""A language model with everything written out: attention, softmax, cross entropy, rotary embedding and AdamW.

Its operations, their sizes and their order are those that the published CUDA memory snapshots of such a model record, so
that what is predicted of it can be held against them. Warm-up steps come first, on data of their own; then the steps that
the snapshots recorded (`--steps`, one there).

    python snapshot_lm.py --context 128
    python snapshot_lm.py --context 512 --autocast
    python snapshot_lm.py --context 1024 --inference
"""

import argparse
import math
from contextlib import nullcontext

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_out, d_in))
        deviation = math.sqrt(2 / (d_in + d_out))
        nn.init.trunc_normal_(self.weight, std=deviation, a=-3 * deviation, b=3 * deviation)

    def forward(self, x):
        return torch.einsum("bti,oi->bto", x, self.weight)


class Embedding(nn.Module):
    def __init__(self, count, d):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, d))
        nn.init.trunc_normal_(self.weight, a=-3, b=3)

    def forward(self, tokens):
        return self.weight[tokens]


class RMSNorm(nn.Module):
    def __init__(self, d, epsilon=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.epsilon = epsilon

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        x = x * scale
        return self.weight * x


class Rotary(nn.Module):
    """Turns pairs of neighbouring features by an angle that grows with the position."""

    def __init__(self, context, d_head, theta=10_000.0):
        super().__init__()
        frequencies = theta ** -(torch.arange(0, d_head, 2) / d_head)
        angles = torch.outer(torch.arange(context), frequencies)
        self.register_buffer("table", torch.stack((angles.cos(), angles.sin())), persistent=False)

    def forward(self, x):
        first, second = x.unflatten(-1, (-1, 2)).movedim(-1, 0)
        cos, sin = self.table[:, : x.shape[-2]]
        turned_first = cos * first - sin * second
        turned_second = sin * first + cos * second
        return torch.concat((turned_first[..., None], turned_second[..., None]), -1).flatten(-2)


def softmax(x, dim):
    x = x - torch.max(x, dim=dim, keepdim=True)[0]
    exponentials = torch.exp(x)
    return exponentials / torch.sum(exponentials, dim=dim, keepdim=True)


def log_softmax(x, dim):
    largest = torch.max(x, dim=dim, keepdim=True)[0]
    x = x - largest
    return x - torch.log(torch.sum(torch.exp(x), dim=dim, keepdim=True))


def cross_entropy(logits, targets):
    costs = -log_softmax(logits, -1)
    return torch.mean(torch.gather(costs, -1, targets[..., None]))


def attend(q, k, v, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(k.shape[-1])
    scores = torch.where(mask, scores, float("-inf"))
    weights = softmax(scores, -1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class Attention(nn.Module):
    def __init__(self, d, heads, rotary):
        super().__init__()
        self.heads = heads
        self.q_proj = Linear(d, d)
        self.k_proj = Linear(d, d)
        self.v_proj = Linear(d, d)
        self.output_proj = Linear(d, d)
        self.rotary = rotary

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        q, k, v = (z.view(batch, length, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        q = self.rotary(q)
        k = self.rotary(k)
        positions = torch.arange(length, device=x.device)
        mask = positions[:, None] >= positions
        attended = attend(q, k, v, mask[None, None])
        attended = attended.transpose(1, 2).reshape(batch, length, -1)
        return self.output_proj(attended)


def silu(x):
    return x * torch.sigmoid(x)


class SwiGLU(nn.Module):
    def __init__(self, d, d_ff):
        super().__init__()
        self.w1 = Linear(d, d_ff)
        self.w2 = Linear(d_ff, d)
        self.w3 = Linear(d, d_ff)

    def forward(self, x):
        return self.w2(silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, d, heads, d_ff, rotary):
        super().__init__()
        self.attention = Attention(d, heads, rotary)
        self.feed_forward = SwiGLU(d, d_ff)
        self.norm1 = RMSNorm(d)
        self.norm2 = RMSNorm(d)

    def forward(self, x):
        attended = self.attention(self.norm1(x))
        between = x + attended
        fed = self.feed_forward(self.norm2(between))
        return between + fed


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, context, d, layers, heads, d_ff):
        super().__init__()
        self.embedding = Embedding(vocabulary, d)
        rotary = Rotary(context, d // heads)
        self.layers = nn.ModuleList(Block(d, heads, d_ff, rotary) for _ in range(layers))
        self.norm = RMSNorm(d)
        self.head = Linear(d, vocabulary)

    def forward(self, x):
        embedded = self.embedding(x)
        x = embedded
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x)


class AdamW(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            lr, eps, decay = group["lr"], group["eps"], group["weight_decay"]
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                t = state.get("t", 1)
                rate = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.data -= lr * decay * p.data
                m = state.get("m", torch.zeros_like(p))
                v = state.get("v", torch.zeros_like(p))
                state["m"] = beta1 * m + (1 - beta1) * p.grad.data
                state["v"] = beta2 * v + (1 - beta2) * torch.square(p.grad.data)
                state["t"] = t + 1
                p.data -= rate * state["m"] / (torch.sqrt(state["v"]) + eps)
        return loss


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--inference", action="store_true", help="only forward passes, in inference mode")
    parser.add_argument(
        "--autocast", action="store_true", help="bfloat16 autocast around the forward pass and the loss"
    )
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    return parser.parse_args()


def train(model, optimizer, precision, inputs, targets):
    for i in range(len(inputs)):
        optimizer.zero_grad()
        with precision:
            logits = model(inputs[i])
            loss = cross_entropy(logits, targets[i])
        loss.backward()
        optimizer.step()


def infer(model, precision, inputs):
    with precision, torch.inference_mode():
        for i in range(len(inputs)):
            model(inputs[i])


def main():
    args = parse()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (args.vocabulary, args.context, args.width, args.layers, args.heads, args.hidden)
    model = LanguageModel(*sizes).to(device)
    precision = torch.autocast(device.type, torch.bfloat16) if args.autocast else nullcontext()

    def tokens(count):
        return torch.randint(args.vocabulary, (count, args.batch_size, args.context), device=device)

    warmup_inputs, inputs = tokens(args.warmup), tokens(args.steps)
    if args.inference:
        infer(model, precision, warmup_inputs)
        infer(model, precision, inputs)
    else:
        optimizer = AdamW(model.parameters())
        warmup_targets, targets = tokens(args.warmup), tokens(args.steps)
        train(model, optimizer, precision, warmup_inputs, warmup_targets)
        train(model, optimizer, precision, inputs, targets)
    if device.type == "cuda":
        print(f"peak allocated {torch.cuda.max_memory_allocated()} reserved {torch.cuda.max_memory_reserved()}")
    print("done")


if __name__ == "__main__":
    main()
