import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models

parser = argparse.ArgumentParser(description="dump pooled ResNet features")
parser.add_argument("root")
parser.add_argument("--out", default="features.npy")
parser.add_argument("--batch-size", type=int, default=256)
args = parser.parse_args()

torch.backends.cudnn.benchmark = True
weights = models.ResNet50_Weights.IMAGENET1K_V2
net = models.resnet50(weights=weights)
net.fc = torch.nn.Identity()
net = net.to("cuda", memory_format=torch.channels_last).eval()

ds = datasets.ImageFolder(args.root, weights.transforms())
loader = DataLoader(ds, args.batch_size, num_workers=8, pin_memory=True)

feats = np.empty((len(ds), 2048), dtype=np.float32)
pos = 0
with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
    for images, _ in loader:
        out = net(images.to("cuda", non_blocking=True)).float()
        n = out.size(0)
        feats[pos:pos + n] = out.to("cpu", non_blocking=True).numpy()
        pos += n

np.save(args.out, feats)
print(f"wrote {pos} rows to {args.out}")
