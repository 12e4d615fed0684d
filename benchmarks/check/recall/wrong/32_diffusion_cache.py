import gc
import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def cosine_alpha_bar(steps, device):
    t = torch.linspace(0, 1, steps, device=device)
    return torch.cos((t + 0.008) / 1.008 * math.pi / 2).pow(2).clamp(1e-5, 1 - 1e-5)


def train_ddpm(unet, dataset, total_steps=200_000, timesteps=1000, lr=1e-4, device="cuda"):
    unet = unet.to(device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(unet.parameters(), lr=lr, fused=True)
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True, num_workers=8,
                        pin_memory=True, persistent_workers=True)
    alpha_bar = cosine_alpha_bar(timesteps, device)
    unet.train()
    step = 0
    while step < total_steps:
        for x0 in loader:
            x0 = x0.to(device, non_blocking=True, memory_format=torch.channels_last)
            t = torch.randint(timesteps, (x0.size(0),), device=device)
            a = alpha_bar[t].view(-1, 1, 1, 1)
            noise = torch.randn_like(x0)
            xt = a.sqrt() * x0 + (1 - a).sqrt() * noise

            with torch.autocast("cuda", dtype=torch.bfloat16):
                pred = unet(xt, t)
            loss = F.mse_loss(pred.float(), noise)
            opt.zero_grad()
            loss.backward()
            opt.step()

            if step % 500 == 0:
                print(f"{step:7d} {loss.item():.4f}")
            del x0, xt, noise, pred, loss
            gc.collect()
            torch.cuda.empty_cache()
            step += 1
            if step == total_steps:
                break
    return unet
