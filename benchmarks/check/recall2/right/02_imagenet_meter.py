import torch


class AverageMeter:
    """Keeps the weighted mean of a quantity."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.sum = 0.0
        self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return float(self.sum / max(self.count, 1))


def train(train_loader, model, criterion, optimizer, epoch, device, args):
    losses = AverageMeter("Loss")
    top1 = AverageMeter("Acc@1")
    model.train()

    for i, (images, target) in enumerate(train_loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)

        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(images)
            loss = criterion(output, target)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        n = images.size(0)
        losses.update(loss.detach(), n)
        top1.update((output.argmax(1) == target).float().mean(), n)

        if i % args.print_freq == 0:
            print(f"Epoch [{epoch}][{i}/{len(train_loader)}] "
                  f"loss {losses.avg:.4f} acc@1 {top1.avg:.4f}")
    return top1.avg
