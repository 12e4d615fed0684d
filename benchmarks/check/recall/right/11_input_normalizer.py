import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import convnext_small


class NormalizedConvNeXt(nn.Module):
    """Takes raw uint8 images so that only one byte per channel crosses the bus."""

    def __init__(self, num_classes):
        super().__init__()
        mean = torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1)
        std = torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1)
        self.register_buffer("mean", mean, persistent=False)
        self.register_buffer("std", std, persistent=False)
        self.backbone = convnext_small(weights=None, num_classes=num_classes)

    def forward(self, x):
        x = (x.float() - self.mean) / self.std
        return self.backbone(x.contiguous(memory_format=torch.channels_last))


def finetune(train_set, num_classes, epochs=20, lr=2e-4):
    torch.backends.cudnn.benchmark = True
    loader = DataLoader(train_set, batch_size=128, shuffle=True, num_workers=8,
                        pin_memory=True, persistent_workers=True, drop_last=True)
    model = NormalizedConvNeXt(num_classes).to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.05, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lr, epochs=epochs, steps_per_epoch=len(loader))
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for epoch in range(epochs):
        for it, (images, target) in enumerate(loader):
            images = images.to("cuda", non_blocking=True)
            target = target.to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_fn(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            if it % 200 == 0:
                print(f"ep {epoch} it {it} loss {loss.item():.3f}")
    return model
