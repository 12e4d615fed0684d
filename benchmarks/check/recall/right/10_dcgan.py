import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from networks import Discriminator, Generator

nz = 100
num_epochs = 25
batch_size = 128
device = torch.device("cuda")


def main():
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    dataset = datasets.ImageFolder("celeba", transform=transforms.Compose([
        transforms.Resize(64),
        transforms.CenterCrop(64),
        transforms.ToTensor(),
        transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ]))
    dataloader = DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=8,
                            pin_memory=True, persistent_workers=True, drop_last=True)
    netG, netD = Generator(nz).to(device), Discriminator().to(device)
    criterion = nn.BCEWithLogitsLoss()
    optG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    optD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    ones = torch.ones(batch_size, device=device)
    zeros = torch.zeros(batch_size, device=device)

    for epoch in range(num_epochs):
        for i, (real, _) in enumerate(dataloader):
            # (1) Update D
            real = real.to(device, non_blocking=True)
            noise = torch.randn(batch_size, nz, 1, 1, device=device)
            fake = netG(noise)
            errD = criterion(netD(real), ones) + criterion(netD(fake.detach()), zeros)
            optD.zero_grad()
            errD.backward()
            optD.step()
            # (2) Update G
            errG = criterion(netD(fake), ones)
            optG.zero_grad()
            errG.backward()
            optG.step()
            if i % 100 == 0:
                print(f"[{epoch}/{num_epochs}][{i}/{len(dataloader)}] "
                      f"Loss_D {errD.item():.4f} Loss_G {errG.item():.4f}")


if __name__ == "__main__":
    main()
