import numpy as np
import torch
from torch import nn

torch.set_float32_matmul_precision("high")
torch.manual_seed(7)
device = torch.device("cuda")

table = np.loadtxt("energy_efficiency.csv", delimiter=",", skiprows=1)
X = torch.from_numpy(table[:, :-1].astype(np.float32)).to(device)
y = torch.from_numpy(table[:, -1:].astype(np.float32)).to(device)

n_test = len(X) // 10
order = torch.randperm(len(X), device=device)
test_idx, train_idx = order[:n_test], order[n_test:]
train_X = X[train_idx]
X = (X - train_X.mean(0)) / train_X.std(0)

net = nn.Sequential(
    nn.Linear(X.shape[1], 512), nn.GELU(),
    nn.Linear(512, 512), nn.GELU(),
    nn.Linear(512, 1),
)
net = net.to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
mse = nn.MSELoss()

for epoch in range(500):
    net.train()
    shuffled = train_idx[torch.randperm(len(train_idx), device=device)]
    for idx in shuffled.split(1024):
        loss = mse(net(X[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    if epoch % 50 == 0:
        net.eval()
        with torch.no_grad():
            test = mse(net(X[test_idx]), y[test_idx])
        print(f"epoch {epoch}: test rmse {test.sqrt().item():.4f}")
