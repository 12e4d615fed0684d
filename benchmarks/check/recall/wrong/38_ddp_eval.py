import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import ResNet50_Weights, resnet50


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = torch.zeros((), dtype=torch.long, device=device)
    for x, y in loader:
        x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            pred = model(x).argmax(dim=1)
        correct += (pred == y).sum()
        total += y.numel()

    if dist.get_rank() == 0:
        dist.all_reduce(correct)
        dist.all_reduce(total)
        print(f"top-1 {correct.item() / total.item():.4f} on {total.item()} images")


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    torch.backends.cudnn.benchmark = True
    weights = ResNet50_Weights.IMAGENET1K_V2
    dataset = ImageFolder("imagenet/val", transform=weights.transforms())
    shard = torch.utils.data.Subset(dataset, range(dist.get_rank(), len(dataset), dist.get_world_size()))
    loader = DataLoader(shard, batch_size=256, num_workers=8, pin_memory=True)
    model = resnet50(weights=weights).to(device, memory_format=torch.channels_last)
    evaluate(model, loader, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
