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
            loss = F.mse_loss(recon[mask], patches[mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
