from dataclasses import dataclass

from torch.utils.data import DataLoader
from torchvision import datasets, transforms


@dataclass
class DataConfig:
    root: str
    image_size: int = 224
    batch_size: int = 128
    workers: int = 8


def build_transforms(size: int, train: bool):
    norm = transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    if train:
        return transforms.Compose([
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            norm,
        ])
    return transforms.Compose([
        transforms.Resize(int(size * 1.14)),
        transforms.CenterCrop(size),
        transforms.ToTensor(),
        norm,
    ])


def build_loaders(cfg: DataConfig):
    train = datasets.ImageFolder(f"{cfg.root}/train", build_transforms(cfg.image_size, True))
    val = datasets.ImageFolder(f"{cfg.root}/val", build_transforms(cfg.image_size, False))
    train_loader = DataLoader(
        train, batch_size=cfg.batch_size, shuffle=True, num_workers=cfg.workers,
        pin_memory=True, persistent_workers=True, prefetch_factor=4, drop_last=True,
    )
    val_loader = DataLoader(
        val, batch_size=2 * cfg.batch_size, shuffle=False,
        pin_memory=True, persistent_workers=True, prefetch_factor=4,
    )
    return train_loader, val_loader
