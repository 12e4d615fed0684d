import argparse

import torch
import torch.nn as nn


class RadianceMLP(nn.Module):
    def __init__(self, width=256, freqs=10):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(freqs))
        self.net = nn.Sequential(
            nn.Linear(6 * freqs, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 3), nn.Sigmoid(),
        )

    def forward(self, xyz):
        ang = (xyz.unsqueeze(-1) * self.bands).flatten(1)
        return self.net(torch.cat([ang.sin(), ang.cos()], dim=-1))


parser = argparse.ArgumentParser()
parser.add_argument("--rays", default="lego_rays.pt")
parser.add_argument("--iters", type=int, default=200000)
parser.add_argument("--batch", type=int, default=8192)
opt = parser.parse_args()

torch.set_float32_matmul_precision("high")
torch.autograd.set_detect_anomaly(True)
device = torch.device("cuda")

rays = torch.load(opt.rays, map_location=device, weights_only=True)
points, colors = rays["points"], rays["colors"]

model = RadianceMLP().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
lr_decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1 ** (1 / opt.iters))

for it in range(opt.iters):
    idx = torch.randint(points.size(0), (opt.batch,), device=device)
    loss = (model(points[idx]) - colors[idx]).square().mean()

    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    lr_decay.step()
    torch.cuda.empty_cache()

    if it % 1000 == 0:
        value = loss.item()
        print(f"iter {it:6d}  mse {value:.5f}")
    if (it + 1) % 20000 == 0:
        torch.save(model.state_dict(), "nerf.pt")
