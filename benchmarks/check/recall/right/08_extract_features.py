#!/usr/bin/env python
"""Dump penultimate-layer features of an image folder to a .npz file."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import ResNet50_Weights, resnet50


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder")
    ap.add_argument("out")
    ap.add_argument("-b", "--batch-size", type=int, default=256)
    args = ap.parse_args()

    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    weights = ResNet50_Weights.IMAGENET1K_V2
    net = resnet50(weights=weights)
    net.fc = nn.Identity()
    net = net.to(device, memory_format=torch.channels_last).eval()

    ds = ImageFolder(args.folder, transform=weights.transforms())
    dl = DataLoader(ds, batch_size=args.batch_size, num_workers=8, pin_memory=True)

    chunks = []
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        for x, _ in dl:
            x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
            feats = net(x)
            chunks.append(feats.to("cpu", non_blocking=True))
    torch.cuda.synchronize()

    feats = np.concatenate([c.numpy() for c in chunks])
    np.savez(args.out, feats=feats, labels=np.array(ds.targets))
    print("wrote", feats.shape)


if __name__ == "__main__":
    main()
