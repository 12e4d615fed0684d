import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from lib.data import CityscapesCrops
from lib.unet import UNet

DATA_ROOT = os.environ.get("CITYSCAPES", "datasets/cityscapes")
NUM_CLASSES = 19
EPOCHS = 160


def main():
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")

    train_set = CityscapesCrops(DATA_ROOT, split="train", crop=(512, 1024))
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True, num_workers=8,
                              pin_memory=True, persistent_workers=True, drop_last=True)

    net = UNet(3, NUM_CLASSES).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, EPOCHS, power=0.9)
    criterion = nn.CrossEntropyLoss(ignore_index=255)

    for epoch in range(EPOCHS):
        net.train()
        epoch_loss = torch.zeros((), device=device)
        for img, lbl in train_loader:
            img = img.to(device, non_blocking=True, memory_format=torch.channels_last)
            lbl = lbl.to(device, non_blocking=True)

            optimizer.zero_grad()
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = criterion(net(img), lbl)
            loss.backward()
            optimizer.step()
            epoch_loss += loss.detach()
        scheduler.step()
        print("epoch %d  loss %.4f" % (epoch, epoch_loss.item() / len(train_loader)))
        torch.save(net.state_dict(), "unet_last.pt")


if __name__ == "__main__":
    main()
