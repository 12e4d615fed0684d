"""Looks for the largest batch: halves it when the device is out of memory, by exception type or by the words in the message."""

import argparse
import gc

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--catch", choices=["type", "old-type", "words"], default="type")
parser.add_argument("--batch-size", type=int, default=65536)
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--depth", type=int, default=8)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


def is_out_of_memory(error):
    if args.catch == "type":
        return isinstance(error, torch.OutOfMemoryError)
    if args.catch == "old-type":
        return isinstance(error, torch.cuda.OutOfMemoryError)
    return isinstance(error, RuntimeError) and "out of memory" in str(error)


def build():
    layers = []
    for _ in range(args.depth):
        layers += [nn.Linear(args.width, args.width), nn.ReLU()]
    return nn.Sequential(*layers).to(device)


model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def train_step(batch_size):
    x = torch.randn(batch_size, args.width, device=device)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


batch_size, failures, done = args.batch_size, 0, 0
while done < args.steps:
    try:
        loss = train_step(batch_size)
        done += 1
        print(f"batch {batch_size}: loss {loss:.6f}")
    except Exception as error:
        if not is_out_of_memory(error) or batch_size == 1:
            raise
        print(f"batch {batch_size} does not fit: {str(error).splitlines()[0][:60]}")
        failures += 1
        batch_size //= 2
        optimizer.zero_grad(set_to_none=True)
    else:
        continue
    # Outside the handler: the traceback would keep the activations alive.
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
print(f"largest batch {batch_size} after {failures} failures")
