import torch
from torch.utils.data import DataLoader, TensorDataset

data = torch.load("embeddings.pt", weights_only=True)
ds = TensorDataset(data["x"], data["y"])

train_loader = DataLoader(
    ds,
    batch_size=512,
    shuffle=True,
    num_workers=2,
    prefetch_factor=4,
    persistent_workers=True,
    pin_memory=True,
)

probe = torch.nn.Linear(768, 100).cuda()
opt = torch.optim.SGD(probe.parameters(), lr=0.3)
for epoch in range(10):
    for x, y in train_loader:
        logits = probe(x.cuda(non_blocking=True))
        loss = torch.nn.functional.cross_entropy(logits, y.cuda(non_blocking=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
