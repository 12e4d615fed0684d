import torch
import torch.nn as nn


class ValidL1Loss(nn.Module):
    """L1 on the pixels that have a lidar return."""

    def __init__(self, max_depth=80.0):
        super().__init__()
        self.max_depth = max_depth

    def forward(self, pred, target):
        valid = (target > 0) & (target < self.max_depth)
        diff = pred[valid] - target[valid]
        return diff.abs().mean()


def train(model, loader, epochs, lr=1e-4, log_every=200):
    device = torch.device("cuda")
    criterion = ValidL1Loss()
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    model.train()
    for epoch in range(epochs):
        for i, (rgb, depth) in enumerate(loader):
            rgb = rgb.to(device, non_blocking=True)
            depth = depth.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                pred = model(rgb)
            loss = criterion(pred.float(), depth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % log_every == 0:
                print(f"[{epoch}/{i}] l1 {loss.item():.3f} m")
