import torch
import torch.nn.functional as F


def train_one_epoch(net, loader, opt, device):
    net.train()
    epoch_loss = torch.zeros((), device=device)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        opt.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        opt.step()
        epoch_loss += loss.detach()
    return (epoch_loss / len(loader)).item()
