import torch
import torch.nn as nn


class Pix2Pix:
    def __init__(self, netG, netD, lr=2e-4, lambda_l1=100.0):
        self.device = torch.device("cuda")
        self.netG = netG.to(self.device)
        self.netD = netD.to(self.device)
        self.gan_loss = nn.BCEWithLogitsLoss()
        self.l1_loss = nn.L1Loss()
        self.lambda_l1 = lambda_l1
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=lr, betas=(0.5, 0.999), fused=True)
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=lr, betas=(0.5, 0.999), fused=True)

    def _adv(self, logits, is_real):
        target = torch.ones_like(logits) if is_real else torch.zeros_like(logits)
        return self.gan_loss(logits, target)

    def optimize(self, src, dst):
        fake = self.netG(src)

        # discriminator
        self.netD.requires_grad_(True)
        pred_real = self.netD(torch.cat([src, dst], dim=1))
        pred_fake = self.netD(torch.cat([src, fake.detach()], dim=1))
        loss_d = 0.5 * (self._adv(pred_real, True) + self._adv(pred_fake, False))
        self.optD.zero_grad()
        loss_d.backward(retain_graph=True)
        self.optD.step()

        # generator
        self.netD.requires_grad_(False)
        pred = self.netD(torch.cat([src, fake], dim=1))
        loss_g = self._adv(pred, True) + self.lambda_l1 * self.l1_loss(fake, dst)
        self.optG.zero_grad()
        loss_g.backward()
        self.optG.step()
        return loss_d.detach(), loss_g.detach()

    def train(self, loader, epochs):
        self.netG.train()
        self.netD.train()
        for epoch in range(epochs):
            for i, (src, dst) in enumerate(loader):
                src = src.to(self.device, non_blocking=True)
                dst = dst.to(self.device, non_blocking=True)
                loss_d, loss_g = self.optimize(src, dst)
                if i % 100 == 0:
                    print(f"{epoch} {i} D {loss_d.item():.3f} G {loss_g.item():.3f}")
