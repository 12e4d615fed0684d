"""A variational autoencoder: the reparametrisation draws on the device, the loss is summed in two parts."""

import argparse

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--samples", type=int, default=2560)
parser.add_argument("--hidden", type=int, default=400)
parser.add_argument("--log-interval", type=int, default=10)
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()

torch.manual_seed(1)
device = torch.device("cuda" if args.cuda else "cpu")
kwargs = {"num_workers": 0, "pin_memory": True} if args.cuda else {}

# Bright squares of 28 x 28 at random places.
images = torch.zeros(args.samples, 1, 28, 28)
for image, (row, column) in zip(images, torch.randint(0, 20, (args.samples, 2)).tolist()):
    image[0, row : row + 8, column : column + 8] = 1
train_loader = DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True, **kwargs)
test_loader = DataLoader(TensorDataset(images[: args.samples // 5]), batch_size=args.batch_size, **kwargs)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, args.hidden)
        self.fc21 = nn.Linear(args.hidden, 20)
        self.fc22 = nn.Linear(args.hidden, 20)
        self.fc3 = nn.Linear(20, args.hidden)
        self.fc4 = nn.Linear(args.hidden, 784)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def train(epoch):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(train_loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx}/{len(train_loader)}]\tLoss: {loss.item() / len(data):.6f}")
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.4f}")


def test(epoch):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for i, (data,) in enumerate(test_loader):
            data = data.to(device)
            recon_batch, mu, logvar = model(data)
            test_loss += loss_function(recon_batch, data, mu, logvar).item()
            if i == 0:
                n = min(data.size(0), 8)
                comparison = torch.cat([data[:n], recon_batch.view(-1, 1, 28, 28)[:n]])
                print("comparison", tuple(comparison.cpu().shape))
    print(f"====> Test set loss: {test_loss / len(test_loader.dataset):.4f}")


for epoch in range(1, args.epochs + 1):
    train(epoch)
    test(epoch)
    with torch.no_grad():
        sample = model.decode(torch.randn(64, 20).to(device)).cpu()
