import torch


def validate(model, val_loader, criterion, device):
    model.eval()
    loss_sum = torch.zeros((), device=device)
    correct = torch.zeros((), device=device, dtype=torch.long)
    n = 0
    with torch.no_grad():
        for images, target in val_loader:
            images = images.to(device, non_blocking=True)
            target = target.to(device, non_blocking=True)
            output = model(images)
            loss_sum += criterion(output, target) * target.size(0)
            correct += (output.argmax(dim=1) == target).sum()
            n += target.size(0)
    return loss_sum.item() / n, 100.0 * correct.item() / n
