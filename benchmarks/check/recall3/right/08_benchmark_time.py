import time

import torch
import torchvision

torch.set_float32_matmul_precision("high")
net = torchvision.models.resnet50(weights=None).cuda().eval()
x = torch.randn(64, 3, 224, 224, device="cuda")

with torch.inference_mode():
    for _ in range(10):
        net(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        net(x)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start

print(f"{50 * 64 / elapsed:.1f} images/s")
