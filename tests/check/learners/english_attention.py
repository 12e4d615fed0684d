# My first transformer block, trained with mixed precision
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import autocast


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        mask = torch.tril(torch.ones(x.size(1), x.size(1)))
        scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = self.drop(F.softmax(scores, dim=-1))
        return weights @ v


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50257, 512)
        self.blocks = [Attention(512) for _ in range(6)]
        self.head = nn.Linear(512, 50257)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)


@torch.compile
def loss_of(tokens, targets):
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    print("loss", loss)
    return loss


def train(loader):
    for tokens, targets in loader:
        optimizer.zero_grad(set_to_none=False)
        with autocast(dtype=torch.bfloat16):
            loss = loss_of(tokens.cuda(), targets.cuda())
            loss.backward()
        optimizer.step()


def validate(loader):
    model.eval()
    total = 0.0
    for tokens, targets in loader:
        total += F.cross_entropy(model(tokens.cuda()).flatten(0, 1), targets.cuda().flatten()).item()
    return total


def how_fast(tokens):
    start = time.time()
    model(tokens.cuda())
    return time.time() - start
