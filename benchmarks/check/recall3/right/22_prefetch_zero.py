import torch
from torch.utils.data import DataLoader
from torchvision import models
from torchvision.datasets import ImageFolder

torch.set_float32_matmul_precision("high")

weights = models.ResNet50_Weights.DEFAULT
ds = ImageFolder("data/birds/train", transform=weights.transforms())

train_loader = DataLoader(
    ds,
    batch_size=128,
    shuffle=True,
    num_workers=8,
    prefetch_factor=4,
    persistent_workers=True,
    pin_memory=True,
)

backbone = models.resnet50(weights=weights).cuda().eval()
backbone.fc = torch.nn.Identity()
probe = torch.nn.Linear(2048, len(ds.classes)).cuda()
opt = torch.optim.SGD(probe.parameters(), lr=0.3)
for epoch in range(10):
    for x, y in train_loader:
        with torch.no_grad():
            feats = backbone(x.cuda(non_blocking=True))
        loss = torch.nn.functional.cross_entropy(probe(feats), y.cuda(non_blocking=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
