import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms
from tqdm import tqdm

torch.backends.cudnn.benchmark = True
device = torch.device("cuda")

tf = transforms.Compose([
    transforms.RandomResizedCrop(224),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
])
train_set = datasets.ImageFolder("data/flowers/train", tf)
loader = DataLoader(train_set, batch_size=128, shuffle=True, num_workers=8,
                    pin_memory=True, persistent_workers=True, drop_last=True)

model = models.resnet34(num_classes=102).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

for epoch in range(40):
    model.train()
    total = 0.0
    bar = tqdm(loader)
    for i, (x, y) in enumerate(bar, 1):
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        bar.set_postfix(loss=total / i)
    torch.save(model.state_dict(), "flowers.pt")
