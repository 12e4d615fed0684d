import argparse
import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="./data")
    ap.add_argument("--gpu", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=30)
    return ap.parse_args()


def main():
    args = get_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    print("running on", torch.cuda.get_device_name())
    os.environ["CUDA_VISIBLE_DEVICES"] = str(args.gpu)
    device = torch.device("cuda")

    train = datasets.SVHN(args.data, split="train", download=True, transform=transforms.ToTensor())
    loader = DataLoader(train, batch_size=512, shuffle=True, num_workers=6,
                        pin_memory=True, persistent_workers=True, drop_last=True)
    net = nn.Sequential(
        nn.Conv2d(3, 64, 5, stride=2), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(128 * 6 * 6, 10),
    ).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            opt.zero_grad()
            loss = loss_fn(net(x), y)
            loss.backward()
            opt.step()
        print(epoch, f"{loss.item():.4f}")
    torch.save(net.state_dict(), "svhn.pt")


if __name__ == "__main__":
    main()
