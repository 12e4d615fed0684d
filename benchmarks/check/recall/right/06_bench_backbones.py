import time

import torch
import torchvision.models as tvm

MODELS = ["resnet50", "convnext_tiny", "efficientnet_v2_s"]


@torch.inference_mode()
def images_per_second(model, batch, iters=50, warmup=10):
    for _ in range(warmup):
        model(batch)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(iters):
        model(batch)
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    return iters * batch.size(0) / elapsed


def main():
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    batch = torch.randn(64, 3, 224, 224, device=device, dtype=torch.bfloat16)
    batch = batch.to(memory_format=torch.channels_last)
    for name in MODELS:
        model = tvm.get_model(name, weights=None).eval()
        model = model.to(device, dtype=torch.bfloat16, memory_format=torch.channels_last)
        print(f"{name:20s} {images_per_second(model, batch):8.1f} img/s")


if __name__ == "__main__":
    main()
