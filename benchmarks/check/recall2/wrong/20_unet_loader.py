import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class CellTiles(Dataset):
    def __init__(self, root):
        self.x = np.load(f"{root}/tiles.npy", mmap_mode="r")
        self.y = np.load(f"{root}/masks.npy", mmap_mode="r")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        img = torch.from_numpy(self.x[i].astype(np.float32) / 255.0)
        mask = torch.from_numpy(self.y[i].astype(np.float32))
        if torch.rand(()) < 0.5:
            img, mask = img.flip(-1), mask.flip(-1)
        return img, mask


def train_unet(net, root, epochs=80):
    torch.backends.cudnn.benchmark = True
    dev = torch.device("cuda")
    net = net.to(dev, memory_format=torch.channels_last)
    loader = DataLoader(CellTiles(root), batch_size=16, shuffle=True, num_workers=8,
                        persistent_workers=True, drop_last=True)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

    for ep in range(epochs):
        net.train()
        running = torch.zeros((), device=dev)
        for img, mask in loader:
            img = img.to(dev, non_blocking=True)
            mask = mask.to(dev, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.binary_cross_entropy_with_logits(net(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        print(f"ep {ep}: {running.item() / len(loader):.4f}")
    torch.save(net.state_dict(), "unet.pt")
