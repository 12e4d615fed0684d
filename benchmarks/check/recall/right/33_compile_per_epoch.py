import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.models import vit_b_16
from torchvision.transforms import v2


def train_step(net, optimizer, x, y):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main(args):
    device = torch.device("cuda")
    tfm = v2.Compose([
        v2.ToImage(),
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=[0.5] * 3, std=[0.5] * 3),
    ])
    ds = datasets.Food101(args.root, split="train", transform=tfm)
    dl = DataLoader(ds, args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True,
                    persistent_workers=True, drop_last=True)
    net = vit_b_16(weights=None, num_classes=101).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.1, fused=True)

    compiled = torch.compile(net)
    for epoch in range(args.epochs):
        net.train()
        total = torch.zeros((), device=device)
        for x, y in dl:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            total += train_step(compiled, optimizer, x, y)
        print(f"epoch {epoch + 1}/{args.epochs} loss {total.item() / len(dl):.4f}")
    torch.save(net.state_dict(), "vit_food.pt")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("root")
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--epochs", type=int, default=90)
    p.add_argument("--workers", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    main(p.parse_args())
