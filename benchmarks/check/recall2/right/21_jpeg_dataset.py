import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms


class Landmarks(Dataset):
    def __init__(self, csv_path, root):
        table = np.genfromtxt(csv_path, delimiter=",", dtype="U128", skip_header=1)
        self.names = table[:, 0]
        self.labels = torch.from_numpy(table[:, 1].astype(np.int64))
        self.root = root
        self.tf = transforms.Compose([
            transforms.RandomResizedCrop(224),
            transforms.ColorJitter(0.2, 0.2, 0.2),
            transforms.ToTensor(),
        ])

    def __len__(self):
        return len(self.names)

    def __getitem__(self, idx):
        with Image.open(f"{self.root}/{self.names[idx]}") as im:
            return self.tf(im.convert("RGB")), self.labels[idx]


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = True
    device = "cuda"
    dataset = Landmarks("train.csv", "images")
    loader = DataLoader(dataset, batch_size=64, shuffle=True, pin_memory=True, drop_last=True,
                        num_workers=8, persistent_workers=True)
    model = models.efficientnet_b0(num_classes=203)
    model = model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(25):
        model.train()
        for step, (x, y) in enumerate(loader):
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"{epoch}/{step} loss {loss.item():.3f}")
        torch.save(model.state_dict(), f"landmarks_{epoch:02d}.pt")
