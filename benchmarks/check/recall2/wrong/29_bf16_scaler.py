import torch
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast


class DiffusionTrainer:
    def __init__(self, unet, loader, timesteps=1000, lr=1e-4):
        self.device = torch.device("cuda")
        self.unet = unet.to(self.device)
        self.loader = loader
        self.opt = torch.optim.AdamW(self.unet.parameters(), lr=lr, fused=True)
        self.scaler = GradScaler()
        betas = torch.linspace(1e-4, 0.02, timesteps, device=self.device)
        self.alpha_bar = torch.cumprod(1 - betas, dim=0)
        self.timesteps = timesteps

    def loss(self, x0):
        t = torch.randint(self.timesteps, (x0.size(0),), device=self.device)
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t].view(-1, 1, 1, 1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        with autocast(dtype=torch.bfloat16):
            return F.mse_loss(self.unet(xt, t), noise)

    def train(self, epochs):
        step = 0
        for _ in range(epochs):
            for x0, _ in self.loader:
                x0 = x0.to(self.device, non_blocking=True)
                loss = self.loss(x0)
                self.opt.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.opt)
                self.scaler.update()
                if step % 500 == 0:
                    print(f"{step:7d} {loss.item():.5f}")
                step += 1
            torch.save(self.unet.state_dict(), "unet.pt")
