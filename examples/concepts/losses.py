"""What a list of losses costs, on the GPU: run it there, or under `flatout predict --gpu t4 --steps 100`."""

import torch
import torch.nn.functional as F
from torch import nn

model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4096, 1024, device="cuda")
y = torch.randint(10, (4096,), device="cuda")


def train(keep):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return keep(loss)


def evaluate(keep):
    return keep(F.cross_entropy(model(x), y))


@torch.no_grad()
def evaluate_without_graph(keep):
    return keep(F.cross_entropy(model(x), y))


for step in (train, evaluate, evaluate_without_graph):
    for name, keep in [("loss", lambda t: t), ("loss.detach()", lambda t: t.detach()), ("loss.item()", lambda t: t.item())]:
        step(keep)  # what the first call allocates for good, such as workspaces, is not of interest here
        kept = []
        before = torch.cuda.memory_allocated()
        for _ in range(4):
            kept.append(step(keep))
        print(f"{step.__name__:24} {name:14} {(torch.cuda.memory_allocated() - before) // 4:12,} bytes a step")
