import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision.models import vit_l_16

from plants import PlantImages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", default="plantclef/train")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    device = torch.device("cuda")
    train_set = PlantImages(args.images, size=224)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=16,
                        pin_memory=True, persistent_workers=True, drop_last=True)

    model = vit_l_16(weights=None, num_classes=train_set.num_classes).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05, fused=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    for epoch in range(args.epochs):
        model.train()
        total = torch.zeros((), device=device)
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch} loss {total.item() / len(loader):.4f}")
        torch.save(model, f"vit_epoch{epoch}.pt")


if __name__ == "__main__":
    main()
