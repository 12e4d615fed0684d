"""Second lesson: a small net, a loader, a training loop and a test loop."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=6400)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--save", default="")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Blobs(Dataset):
    """Grey images of 28 x 28 whose class is the row of their bright stripe."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(count)
        self.labels = torch.randint(0, 10, (count,), generator=generator)
        self.images = 0.3 * torch.rand(count, 1, 28, 28, generator=generator)
        for image, label in zip(self.images, self.labels):
            image[:, 2 * label + 4 : 2 * label + 6] += 0.7

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], int(self.labels[index])


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.stack = nn.Sequential(
            nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    def forward(self, x):
        return self.stack(self.flatten(x))


def train(loader, model, loss_fn, optimizer):
    model.train()
    for batch, (X, y) in enumerate(loader):
        X, y = X.to(device), y.to(device)
        pred = model(X)
        loss = loss_fn(pred, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch % 100 == 0:
            print(f"loss: {loss.item():>7f}  [{(batch + 1) * len(X):>5d}/{len(loader.dataset):>5d}]")


def test(loader, model, loss_fn):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for X, y in loader:
            X, y = X.to(device), y.to(device)
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    print(f"Accuracy: {100 * correct / len(loader.dataset):>0.1f}%, Avg loss: {test_loss / len(loader):>8f}")


train_loader = DataLoader(Blobs(args.samples), batch_size=args.batch_size, shuffle=True)
test_loader = DataLoader(Blobs(max(10, args.samples // 6)), batch_size=args.batch_size)
model = NeuralNetwork().to(device)
print(model)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(args.epochs):
    print(f"Epoch {epoch + 1}\n-------------------------------")
    train(train_loader, model, loss_fn, optimizer)
    test(test_loader, model, loss_fn)
if args.save:
    torch.save(model.state_dict(), args.save)
    model = NeuralNetwork().to(device)
    model.load_state_dict(torch.load(args.save, weights_only=True))
print("Done!")
