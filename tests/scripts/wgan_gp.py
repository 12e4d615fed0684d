"""A Wasserstein GAN with a gradient penalty: the critic's loss contains a gradient, so backward runs through backward."""

import argparse

import torch
from torch import autograd, nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--image-size", type=int, default=32)
parser.add_argument("--latent", type=int, default=128)
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--critic-steps", type=int, default=3)
parser.add_argument("--iterations", type=int, default=3)
parser.add_argument("--penalty", type=float, default=10.0)
opt = parser.parse_args()
cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
s, w = opt.image_size // 4, opt.width


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(opt.latent, 2 * w * s * s)
        self.net = nn.Sequential(
            nn.BatchNorm2d(2 * w),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * w, 2 * w, 3, padding=1),
            nn.BatchNorm2d(2 * w),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * w, 3, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.project(z).view(z.shape[0], 2 * w, s, s))


critic = nn.Sequential(
    nn.Conv2d(3, w, 3, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Conv2d(w, 2 * w, 3, 2, 1),
    nn.LeakyReLU(0.2),
    nn.Flatten(),
    nn.Linear(2 * w * s * s, 1),
)
generator = Generator()
if cuda:
    generator.cuda()
    critic.cuda()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
optimizer_C = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))


def gradient_penalty(real, fake):
    mix = torch.rand(real.size(0), 1, 1, 1, device=device)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    (gradients,) = autograd.grad(
        outputs=score, inputs=between, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True
    )
    return ((gradients.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


for iteration in range(opt.iterations):
    for _ in range(opt.critic_steps):
        real = torch.rand(opt.batch_size, 3, opt.image_size, opt.image_size).mul_(2).sub_(1).to(device)
        fake = generator(torch.randn(opt.batch_size, opt.latent, device=device)).detach()
        optimizer_C.zero_grad()
        gp = gradient_penalty(real, fake)
        loss_C = critic(fake).mean() - critic(real).mean() + opt.penalty * gp
        loss_C.backward()
        optimizer_C.step()
    for p in critic.parameters():
        p.requires_grad_(False)
    optimizer_G.zero_grad()
    loss_G = -critic(generator(torch.randn(opt.batch_size, opt.latent, device=device))).mean()
    loss_G.backward()
    optimizer_G.step()
    for p in critic.parameters():
        p.requires_grad_(True)
    print(f"{iteration}: critic {loss_C.item():.4f}, generator {loss_G.item():.4f}, penalty {gp.item():.4f}")
