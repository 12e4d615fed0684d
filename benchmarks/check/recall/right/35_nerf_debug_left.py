import torch
import torch.nn as nn

from render import render_rays
from rays import load_rays

torch.set_float32_matmul_precision("high")
device = torch.device("cuda")


class NeRF(nn.Module):
    def __init__(self, in_dim=63, width=256, depth=8):
        super().__init__()
        layers = [nn.Linear(in_dim, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.rgb_sigma = nn.Linear(width, 4)

    def forward(self, x):
        return self.rgb_sigma(self.body(x))


def main():
    rays, colours = load_rays("lego/train")
    rays, colours = rays.to(device), colours.to(device)
    coarse, fine = NeRF().to(device), NeRF().to(device)
    params = [*coarse.parameters(), *fine.parameters()]
    optimizer = torch.optim.Adam(params, lr=5e-4, fused=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1 ** (1 / 250_000))

    for it in range(200_000):
        idx = torch.randint(rays.size(0), (4096,), device=device)
        rgb_c, rgb_f = render_rays(coarse, fine, rays[idx], n_coarse=64, n_fine=128)
        mse_f = nn.functional.mse_loss(rgb_f, colours[idx])
        loss = nn.functional.mse_loss(rgb_c, colours[idx]) + mse_f
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 1000 == 0:
            psnr = -10.0 * torch.log10(mse_f.detach())
            print(f"iter {it} psnr {psnr.item():.2f}")
    torch.save({"coarse": coarse.state_dict(), "fine": fine.state_dict()}, "nerf.pt")


if __name__ == "__main__":
    main()
