"""Train a small convnet on scikit-learn's handwritten digits: `train.py` with flatout's Loop."""

import argparse
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import flatout


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
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True
    )
    return train_loader, DataLoader(val_set, batch_size=256, num_workers=args.workers)


def train_epoch(loop, model, loader):
    model.train()
    for x, y in loader:
        with loop.step():
            loss = loop.backward(F.cross_entropy(model(x), y))
        loop.log(loss=loss)
    return loop.metrics()["loss"]


def validate(loop, model, loader):
    with loop.evaluation():
        for x, y in loader:
            logits = model(x)
            loop.log(loss=F.cross_entropy(logits.float(), y), accuracy=(logits.argmax(1) == y).float().mean())
    means = loop.metrics()
    return means["loss"], means["accuracy"]


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--amp", action="store_true", help="mixed precision: float16 on a GPU, bfloat16 on a CPU")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--checkpoint", default="digits.pt")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    low = "fp16" if torch.cuda.is_available() and args.device != "cpu" else "bf16"
    loop = flatout.Loop(device=args.device, precision=low if args.amp else "fp32", schedule="epoch")
    train_loader, val_loader = loop.prepare(*get_loaders(args))
    model = ConvNet(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    model, optimizer, scheduler = loop.prepare(model, optimizer, scheduler)
    loop.print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {loop.device}")

    best = 0.0
    started = time.perf_counter()
    for epoch in loop.epochs(args.epochs):
        train_loss = train_epoch(loop, model, train_loader)
        val_loss, accuracy = validate(loop, model, val_loader)
        seconds = time.perf_counter() - started
        loop.print(
            f"epoch {epoch + 1}: train loss {train_loss:.4f}, val loss {val_loss:.4f}, accuracy {accuracy:.4f}, {seconds:.1f} s"
        )
        if accuracy > best:
            best, best_epoch = accuracy, epoch + 1
            torch.save(loop.unwrap(model).state_dict(), args.checkpoint)

    loop.unwrap(model).load_state_dict(torch.load(args.checkpoint, map_location=loop.device))
    val_loss, accuracy = validate(loop, model, val_loader)
    loop.print(f"best: epoch {best_epoch}, val loss {val_loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
