import torch
from torch.amp import GradScaler, autocast

# ---- training ----
def train_diffusion(unet, betas, dataloader, optimizer, n_steps=1000):
    scaler = GradScaler("cuda")
    alpha_bar = torch.cumprod(1.0 - betas, dim=0).to("cuda")
    unet.train()
    for x0, _ in dataloader:
        x0 = x0.to("cuda", non_blocking=True)
        t = torch.randint(0, n_steps, (x0.size(0),), device="cuda")
        a = alpha_bar[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(x0)
        with autocast("cuda", dtype=torch.float16):
            pred = unet(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)
            loss = torch.nn.functional.mse_loss(pred, noise)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
