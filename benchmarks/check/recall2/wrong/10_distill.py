import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", required=True)
    p.add_argument("--teacher", required=True)
    p.add_argument("--warmup", type=int, default=2000)
    p.add_argument("--epochs", type=int, default=50)
    args = p.parse_args()

    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    tf = transforms.Compose([transforms.RandomResizedCrop(192), transforms.ToTensor()])
    loader = DataLoader(datasets.ImageFolder(args.data, tf), 256, shuffle=True,
                        num_workers=12, pin_memory=True, persistent_workers=True,
                        drop_last=True)

    teacher = models.resnet50(num_classes=200)
    teacher.load_state_dict(torch.load(args.teacher, map_location="cpu", weights_only=True))
    teacher = teacher.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)
    student = models.resnet18(num_classes=200).to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            alpha = torch.tensor(min(1.0, step / args.warmup), device=device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                with torch.no_grad():
                    soft = F.softmax(teacher(x) / 4.0, dim=1)
                logits = student(x)
                kd = F.kl_div(F.log_softmax(logits / 4.0, dim=1), soft, reduction="batchmean") * 16.0
                loss = alpha * kd + (1 - alpha) * F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            torch.cuda.synchronize()
            step += 1
        print(f"epoch {epoch} loss {loss.item():.4f}")
        torch.save(student.state_dict(), "student.pt")


if __name__ == "__main__":
    main()
