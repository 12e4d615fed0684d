import torch
import torch.nn as nn


class Discriminator(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, ch, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ch, ch * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ch * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ch * 2, 1, 16),
            nn.Flatten(0),
        )

    def forward(self, x):
        return self.main(x)


def train_discriminator(netD, netG, loader, device, nz=128):
    netD.to(device).train()
    netG.to(device).eval()
    criterion = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    scaler = torch.amp.GradScaler("cuda")
    for real, _ in loader:
        real = real.to(device, non_blocking=True)
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
            fake = netG(torch.randn(real.size(0), nz, 1, 1, device=device))
        with torch.autocast("cuda", dtype=torch.float16):
            out_real = netD(real)
            out_fake = netD(fake)
            loss = criterion(out_real, torch.ones_like(out_real))
            loss = loss + criterion(out_fake, torch.zeros_like(out_fake))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return loss.item()
