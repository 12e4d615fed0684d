import torch
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import mobilenet_v3_small

EPOCHS = 300

torch.backends.cudnn.benchmark = True
DEVICE = torch.device("cuda")

augment = transforms.Compose([
    transforms.Resize(160),
    transforms.RandomCrop(144),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
])
ds = datasets.OxfordIIITPet("./pets", split="trainval", transform=augment, download=True)
dl = DataLoader(ds, batch_size=128, shuffle=True, num_workers=8, pin_memory=True, drop_last=True,
                persistent_workers=True)

net = mobilenet_v3_small(num_classes=37).to(DEVICE, memory_format=torch.channels_last)
opt = optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.9)
sched = optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)

for ep in range(EPOCHS):
    net.train()
    hits = torch.zeros((), device=DEVICE, dtype=torch.long)
    seen = 0
    for xb, yb in dl:
        xb = xb.to(DEVICE, non_blocking=True)
        yb = yb.to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = net(xb)
            loss = F.cross_entropy(out, yb, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hits += (out.argmax(1) == yb).sum()
        seen += yb.numel()
    sched.step()
    print(f"{ep:3d}  train acc {hits.item() / seen:.3f}")

torch.save(net.state_dict(), "pets.pt")
