import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 64))
w = rng.normal(size=64)
y = X @ w + 0.1 * rng.normal(size=20000)

X_t = torch.from_numpy(X)
y_t = torch.from_numpy(y).unsqueeze(1)

mlp = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)).double()
opt = torch.optim.Adam(mlp.parameters(), lr=1e-3)

for epoch in range(20):
    perm = torch.randperm(len(X_t))
    for i in range(0, len(X_t), 256):
        idx = perm[i:i + 256]
        opt.zero_grad()
        loss = nn.functional.mse_loss(mlp(X_t[idx]), y_t[idx])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
