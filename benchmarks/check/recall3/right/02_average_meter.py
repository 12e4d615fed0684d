import torch


class AverageMeter:
    def __init__(self, name):
        self.name = name
        self.sum = 0.0
        self.count = 0

    def update(self, val, n=1):
        self.sum = self.sum + val * n
        self.count += n

    @property
    def avg(self):
        return float(self.sum) / max(self.count, 1)


def train(loader, model, criterion, optimizer, epoch, args):
    losses = AverageMeter("Loss")
    model.train()
    for i, (images, target) in enumerate(loader):
        images = images.cuda(args.gpu, non_blocking=True)
        target = target.cuda(args.gpu, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach(), images.size(0))
        if i % args.print_freq == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {losses.avg:.4f}")
    return losses.avg
