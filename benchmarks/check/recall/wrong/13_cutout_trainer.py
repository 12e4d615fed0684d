import numpy as np
import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, loader, lr=1e-3, cutout=16):
        self.device = torch.device("cuda")
        self.model = model.to(self.device, memory_format=torch.channels_last)
        self.loader = loader
        self.cutout = cutout
        self.rng = np.random.default_rng(0)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=True)

    def augment(self, x):
        size = self.cutout
        top = int(self.rng.integers(0, x.size(2) - size))
        left = int(self.rng.integers(0, x.size(3) - size))
        img = x.cpu().numpy()
        img[:, :, top:top + size, left:left + size] = 0.0
        return torch.from_numpy(img).to(self.device)

    def run_epoch(self, epoch):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for x, y in self.loader:
            x = x.to(self.device, non_blocking=True, memory_format=torch.channels_last)
            y = y.to(self.device, non_blocking=True)
            x = self.augment(x)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item() / len(self.loader):.4f}")

    def fit(self, epochs):
        for epoch in range(epochs):
            self.run_epoch(epoch)
