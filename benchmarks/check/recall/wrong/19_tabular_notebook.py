# In[1]:
import numpy as np
import pandas as pd
import torch
import torch.nn as nn

torch.set_float32_matmul_precision("high")
device = "cuda"

# In[2]:
df = pd.read_csv("housing.csv").dropna()
target = np.log1p(df.pop("median_house_value").to_numpy())
features = pd.get_dummies(df).to_numpy(dtype=np.float64)
features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-8)

# In[3]:
# small enough to keep on the GPU
X = torch.from_numpy(features).to(device)
y = torch.from_numpy(target).to(device).unsqueeze(1)

# In[4]:
model = nn.Sequential(
    nn.Linear(X.shape[1], 256), nn.ReLU(),
    nn.Linear(256, 256), nn.ReLU(),
    nn.Linear(256, 1),
).double().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
loss_fn = nn.MSELoss()

# In[5]:
batch_size = 4096
model.train()
for epoch in range(200):
    order = torch.randperm(len(X), device=device)
    for idx in order.split(batch_size):
        loss = loss_fn(model(X[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 20 == 0:
        print(f"epoch {epoch}: mse of the last batch {loss.item():.4f}")
