import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def elbo(x, recon, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none").flatten(1).sum(dim=1)
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1)
    return (rec + beta * kld).mean()


def fit(vae, dataset, epochs, beta=1.0, log_every=100, device="cuda"):
    loader = DataLoader(
        dataset,
        batch_size=256,
        shuffle=True,
        drop_last=True,
        num_workers=4,
        pin_memory=True,
        persistent_workers=True,
    )
    vae.to(device)
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3, fused=True)
    vae.train()
    step = 0
    for epoch in range(epochs):
        for x, _ in loader:
            x = x.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                recon, mu, logvar = vae(x)
            loss = elbo(x, recon.float(), mu.float(), logvar.float(), beta)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % log_every == 0:
                value = loss.item()
                if math.isnan(value):
                    print(f"NaN loss before step {step}, stopping")
                    return vae
                print(f"epoch {epoch} step {step} elbo {value:.2f}")
    return vae
