"""DataParallel, as beginners wrap their model: with one GPU (or none) it must change nothing."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--input-size", type=int, default=512)
parser.add_argument("--batch-size", type=int, default=30)
parser.add_argument("--length", type=int, default=100)
parser.add_argument("--save", default="")
args = parser.parse_args()

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class RandomDataset(Dataset):
    def __init__(self, size, length):
        self.data = torch.randn(length, size)

    def __getitem__(self, index):
        return self.data[index]

    def __len__(self):
        return len(self.data)


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc1 = nn.Linear(inputs, 4 * inputs)
        self.fc2 = nn.Linear(4 * inputs, outputs)

    def forward(self, x):
        y = self.fc2(torch.relu(self.fc1(x)))
        print("\tIn Model: input size", x.size(), "output size", y.size())
        return y


loader = DataLoader(RandomDataset(args.input_size, args.length), batch_size=args.batch_size, shuffle=True)
model = Model(args.input_size, 2)
if torch.cuda.device_count() > 1:
    print("Let's use", torch.cuda.device_count(), "GPUs!")
model = nn.DataParallel(model)
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for data in loader:
    x = data.to(device)
    output = model(x)
    loss = output.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("Outside: input size", x.size(), "output size", output.size())
if args.save:
    torch.save(model.module.state_dict(), args.save)
