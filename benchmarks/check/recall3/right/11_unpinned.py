import torch
from torch import nn, optim
from torch.utils.data import DataLoader, random_split
from torchvision.datasets import CIFAR10
from torchvision.transforms import ToTensor
from torchvision.models import resnet18

torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
device = torch.device("cuda")
train_ds, _ = random_split(CIFAR10(".", download=True, transform=ToTensor()), [45000, 5000])
train_dl = DataLoader(train_ds, batch_size=128, shuffle=True, num_workers=8,
                      persistent_workers=True, pin_memory=True)
model = resnet18(num_classes=10).to(device)
opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(30):
    model.train()
    for xb, yb in train_dl:
        xb = xb.to(device, non_blocking=True)
        yb = yb.to(device, non_blocking=True)
        opt.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
