"""A DCGAN: two networks, two optimizers, labels filled in place, the fake batch detached for one and not for the other."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--nz", type=int, default=100, help="size of the latent vector")
parser.add_argument("--ngf", type=int, default=64)
parser.add_argument("--ndf", type=int, default=64)
parser.add_argument("--images", type=int, default=1280)
parser.add_argument("--niter", type=int, default=1)
opt = parser.parse_args()

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
real_label, fake_label = 1.0, 0.0


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def up(i, o, stride=2, padding=1):
    return [nn.ConvTranspose2d(i, o, 4, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]


def down(i, o):
    return [nn.Conv2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2, inplace=True)]


g, d = opt.ngf, opt.ndf
netG = nn.Sequential(
    *up(opt.nz, 8 * g, 1, 0),
    *up(8 * g, 4 * g),
    *up(4 * g, 2 * g),
    *up(2 * g, g),
    nn.ConvTranspose2d(g, 3, 4, 2, 1, bias=False),
    nn.Tanh(),
).to(device)
netD = nn.Sequential(
    nn.Conv2d(3, d, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    *down(d, 2 * d),
    *down(2 * d, 4 * d),
    *down(4 * d, 8 * d),
    nn.Conv2d(8 * d, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
).to(device)
netG.apply(weights_init)
netD.apply(weights_init)

images = torch.rand(opt.images, 3, 64, 64) * 2 - 1
loader = DataLoader(TensorDataset(images), batch_size=opt.batch_size, shuffle=True)
criterion = nn.BCELoss()
fixed_noise = torch.randn(16, opt.nz, 1, 1, device=device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for epoch in range(opt.niter):
    for i, (data,) in enumerate(loader):
        # The discriminator: log(D(x)) + log(1 - D(G(z))).
        netD.zero_grad()
        real = data.to(device)
        label = torch.full((real.size(0),), real_label, dtype=real.dtype, device=device)
        output = netD(real).view(-1, 1).squeeze(1)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()

        noise = torch.randn(real.size(0), opt.nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(fake_label)
        output = netD(fake.detach()).view(-1, 1).squeeze(1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        errD = errD_real + errD_fake
        optimizerD.step()

        # The generator: log(D(G(z))).
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake).view(-1, 1).squeeze(1)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean().item()
        optimizerG.step()
        print(
            f"[{epoch}/{opt.niter}][{i}/{len(loader)}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f} "
            f"D(x): {D_x:.4f} D(G(z)): {D_G_z1:.4f} / {D_G_z2:.4f}"
        )
    with torch.no_grad():
        sample = netG(fixed_noise).detach().cpu()
    print("sample", tuple(sample.shape), f"{sample.min():.2f} to {sample.max():.2f}")
