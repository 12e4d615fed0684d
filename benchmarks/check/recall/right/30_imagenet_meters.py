import torch


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val, self.sum, self.count = 0.0, 0.0, 0

    def update(self, val, n=1):
        self.val = val
        self.sum = self.sum + val * n
        self.count += n

    def __str__(self):
        return f"{self.name} {float(self.sum) / max(1, self.count):.4f}"


def train(train_loader, model, criterion, optimizer, epoch, device, print_freq=100):
    losses = AverageMeter("Loss")
    model.train()
    for i, (images, target) in enumerate(train_loader):
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(images)
            loss = criterion(output, target)
        losses.update(loss.detach(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % print_freq == 0:
            print(f"Epoch [{epoch}][{i}/{len(train_loader)}] {losses}")


@torch.no_grad()
def validate(val_loader, model, device):
    top1 = AverageMeter("Acc@1")
    model.eval()
    for images, target in val_loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        target = target.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(images)
        top1.update((output.argmax(dim=1) == target).float().mean(), images.size(0))
    print(top1)
    return float(top1.sum) / top1.count
