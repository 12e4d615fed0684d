"""No DataLoader: a whole data set on the device, batches by a permutation made there, a module that grows its input lazily."""

import argparse

import torch
from torch import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=100_000)
parser.add_argument("--columns", type=int, default=64)
parser.add_argument("--batch-size", type=int, default=4096)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--optimizer", default="RMSprop", help="a class of torch.optim")
args = parser.parse_args()
if torch.cuda.is_available():
    torch.set_default_device("cuda")

X = torch.randn(args.rows, args.columns)
coefficients = torch.randn(args.columns, 1)
Y = X @ coefficients + 0.1 * torch.randn(args.rows, 1)
categories = torch.randint(0, 7, (args.rows,))


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.net = nn.Sequential(nn.LazyLinear(256), nn.ELU(), nn.Linear(256, 256), nn.ELU(), nn.Linear(256, 1))

    def forward(self, x, category):
        return self.net(torch.cat([x, self.embedding(category)], dim=1))


model = Tabular()
model(X[:2], categories[:2])  # now the lazy layer knows its size
optimizer = getattr(optim, args.optimizer)(model.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    permutation = torch.randperm(args.rows)
    running = torch.zeros(())
    batches = permutation.split(args.batch_size)
    for index in batches:
        loss = nn.functional.mse_loss(model(X[index], categories[index]), Y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.detach()
    print(f"epoch {epoch}: {len(batches)} steps, loss {(running / len(batches)).item():.4f} on {X.device}")
