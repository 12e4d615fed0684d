import torch
from torch import nn


class MaskedDepthLoss(nn.Module):
    """L1 + scale-invariant log loss on the pixels that have a lidar return."""

    def __init__(self, lam=0.5, max_depth=80.0):
        super().__init__()
        self.lam = lam
        self.max_depth = max_depth

    def forward(self, pred, gt):
        valid = (gt > 0) & (gt < self.max_depth)
        count = valid.sum().clamp(min=1)
        safe = torch.where(valid, gt, 1.0)
        d = torch.log(pred.clamp(min=1e-3)) - torch.log(safe)
        d = torch.where(valid, d, 0.0)
        l1 = torch.where(valid, (pred - gt).abs(), 0.0).sum() / count
        silog = (d ** 2).sum() / count - self.lam * (d.sum() / count) ** 2
        return l1 + silog


def train_epoch(net, loader, opt, device):
    criterion = MaskedDepthLoss()
    net.train()
    total = torch.zeros((), device=device)
    for rgb, depth in loader:
        rgb = rgb.to(device, non_blocking=True)
        depth = depth.to(device, non_blocking=True)
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            pred = net(rgb)
        loss = criterion(pred.float(), depth)
        loss.backward()
        opt.step()
        total += loss.detach()
    return total.item() / len(loader)
