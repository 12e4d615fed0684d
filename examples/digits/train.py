"""Train a small convnet on scikit-learn's handwritten digits (1,797 real images of 8 x 8, ten classes)."""

import argparse
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class ConvNet(nn.Module):
    def __init__(self, width=32, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
        )
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = self.features(x).flatten(1)
        return self.classifier(self.dropout(x))


def get_loaders(args):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.long)
    dataset = TensorDataset(images, labels)
    held_out = len(dataset) // 5
    train_set, val_set = random_split(
        dataset, [len(dataset) - held_out, held_out], generator=torch.Generator().manual_seed(args.seed)
    )
    pin = args.device.startswith("cuda")
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=pin, drop_last=True
    )
    val_loader = DataLoader(val_set, batch_size=256, num_workers=args.workers, pin_memory=pin)
    return train_loader, val_loader


def train_epoch(model, loader, optimizer, scaler, args):
    model.train()
    total, count = 0.0, 0
    for x, y in loader:
        x = x.to(args.device, non_blocking=True)
        y = y.to(args.device, non_blocking=True)
        with torch.autocast(args.device_type, dtype=args.amp_dtype, enabled=args.amp):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * len(x)
        count += len(x)
    return total / count


@torch.no_grad()
def validate(model, loader, args):
    model.eval()
    total, correct, count = 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(args.device), y.to(args.device)
        with torch.autocast(args.device_type, dtype=args.amp_dtype, enabled=args.amp):
            logits = model(x)
        total += F.cross_entropy(logits.float(), y, reduction="sum").item()
        correct += (logits.argmax(1) == y).sum().item()
        count += len(x)
    return total / count, correct / count


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--amp", action="store_true", help="mixed precision: float16 on a GPU, bfloat16 on a CPU")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoint", default="digits.pt")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.device_type = args.device.split(":")[0]
    args.amp_dtype = torch.float16 if args.device_type == "cuda" else torch.bfloat16
    return args


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    train_loader, val_loader = get_loaders(args)
    model = ConvNet(args.width).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    scaler = torch.amp.GradScaler(args.device_type, enabled=args.amp and args.amp_dtype is torch.float16)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {args.device}")

    best = 0.0
    started = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        train_loss = train_epoch(model, train_loader, optimizer, scaler, args)
        val_loss, accuracy = validate(model, val_loader, args)
        scheduler.step()
        seconds = time.perf_counter() - started
        print(
            f"epoch {epoch}: train loss {train_loss:.4f}, val loss {val_loss:.4f}, accuracy {accuracy:.4f}, {seconds:.1f} s"
        )
        if accuracy > best:
            best = accuracy
            torch.save({"model": model.state_dict(), "epoch": epoch, "accuracy": accuracy}, args.checkpoint)

    checkpoint = torch.load(args.checkpoint, map_location=args.device)
    model.load_state_dict(checkpoint["model"])
    val_loss, accuracy = validate(model, val_loader, args)
    print(f"best: epoch {checkpoint['epoch']}, val loss {val_loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
