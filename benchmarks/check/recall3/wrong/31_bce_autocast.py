import torch
import torch.nn as nn


class Discriminator(nn.Module):
    def __init__(self, in_dim=784):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(in_dim, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, x):
        return self.body(x.flatten(1))


disc = Discriminator().cuda()
opt = torch.optim.Adam(disc.parameters(), lr=2e-4, betas=(0.5, 0.999))
scaler = torch.amp.GradScaler("cuda")
criterion = nn.BCELoss()


def d_step(images, labels):
    opt.zero_grad()
    with torch.amp.autocast("cuda"):
        loss = criterion(disc(images), labels)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    return loss.detach()
