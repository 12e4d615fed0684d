import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

BATCH_PER_GPU = 64
EPOCHS = 60


def main():
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    n_gpu = torch.cuda.device_count()

    tf = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
    ])
    train_set = datasets.ImageFolder("data/train", tf)
    loader = DataLoader(train_set, batch_size=BATCH_PER_GPU * n_gpu, shuffle=True,
                        num_workers=4 * n_gpu, pin_memory=True,
                        persistent_workers=True, drop_last=True)

    model = models.convnext_tiny(num_classes=len(train_set.classes))
    model = nn.DataParallel(model).to(device, memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)

    for epoch in range(EPOCHS):
        model.train()
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
        torch.save(model.module.state_dict(), "convnext.pt")


if __name__ == "__main__":
    main()
