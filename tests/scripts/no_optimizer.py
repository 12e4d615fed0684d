"""No optimizer object and no nn.Module: a two-layer net whose weights are tensors, moved by hand under no_grad."""

import argparse
import math

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--inputs", type=int, default=784)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
dev = "cuda" if torch.cuda.is_available() else "cpu"

weights1 = (torch.randn(args.inputs, args.hidden, device=dev) / math.sqrt(args.inputs)).requires_grad_()
bias1 = torch.zeros(args.hidden, device=dev, requires_grad=True)
weights2 = torch.empty(args.hidden, 10, device=dev)
weights2.normal_(0, 1 / math.sqrt(args.hidden)).requires_grad_()
bias2 = torch.zeros(10, device=dev, requires_grad=True)
params = [weights1, bias1, weights2, bias2]
truth = torch.randn(args.inputs, 10, device=dev)


def model(xb):
    return torch.relu(xb @ weights1 + bias1) @ weights2 + bias2


def nll(logits, target):
    log_probabilities = logits - logits.exp().sum(-1).log().unsqueeze(-1)
    return -log_probabilities[range(target.shape[0]), target].mean()


for step in range(args.steps):
    xb = torch.randn(args.batch_size, args.inputs, device=dev)
    yb = (xb @ truth).argmax(dim=1)
    pred = model(xb)
    loss = nll(pred, yb)
    loss.backward()
    with torch.no_grad():
        for p in params:
            p -= args.lr * p.grad
            p.grad = None
    accuracy = (pred.argmax(dim=1) == yb).float().mean()
    print(f"step {step}: loss {loss:.4f}, accuracy {accuracy.item():.3f}")
