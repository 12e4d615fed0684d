import argparse
import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.autograd.set_detect_anomaly(True)


def main(model, loader):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--lr", type=float, default=5e-4)
    opts = ap.parse_args()
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=opts.lr, fused=True)
    torch.set_float32_matmul_precision("high")
    it = 0
    for _ in range(opts.epochs):
        for rays, rgb in loader:
            pred = model(rays.cuda(non_blocking=True))
            loss = F.mse_loss(pred, rgb.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            it += 1
            if it % 500 == 0:
                print(f"[{it}] mse {loss.item():.5f}")
