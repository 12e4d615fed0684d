import torch
import torch.nn.functional as F

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def pretrain(mae, loader, optimizer, epochs):
    mae.train()
    for epoch in range(epochs):
        for patches, mask in loader:
            patches = patches.to(device, non_blocking=True)
            mask = mask.to(device, non_blocking=True)  # (B, N) bool
            recon = mae(patches, mask)
            per_patch = F.mse_loss(recon, patches, reduction="none").mean(-1)
            loss = (per_patch * mask).sum() / mask.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
