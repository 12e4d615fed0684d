import torch
import torch.nn as nn


def train_gan(G, D, loader, opt_g, opt_d, z_dim, device):
    criterion = nn.BCEWithLogitsLoss()
    history = []
    for real, _ in loader:
        real = real.to(device, non_blocking=True)
        b = real.size(0)
        ones = torch.ones(b, 1, device=device)
        zeros = torch.zeros(b, 1, device=device)

        z = torch.randn(b, z_dim, 1, 1).to(device)
        fake = G(z)
        loss_d = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = criterion(D(fake), ones)
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        history.append(loss_g)
    return torch.stack(history).detach().cpu()
