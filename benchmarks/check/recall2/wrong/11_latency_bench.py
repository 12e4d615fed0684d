import time

import torch
from torchvision import models

torch.backends.cudnn.benchmark = True


@torch.inference_mode()
def bench(name, batch, warmup=20, iters=100):
    net = getattr(models, name)(weights=None)
    net = net.to("cuda", memory_format=torch.channels_last).half().eval()
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half)
    x = x.to(memory_format=torch.channels_last)

    for _ in range(warmup):
        net(x)

    t0 = time.time()
    for _ in range(iters):
        net(x)
    elapsed = time.time() - t0
    return elapsed / iters * 1e3


if __name__ == "__main__":
    for arch in ("resnet18", "resnet50", "convnext_tiny"):
        for bs in (1, 16, 64):
            ms = bench(arch, bs)
            print(f"{arch:14s} bs={bs:<3d} {ms:7.2f} ms  {bs / ms * 1e3:9.1f} img/s")
