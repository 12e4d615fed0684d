import torch
import torch.nn as nn


def train_epoch(generator, dataloader, optimizer, device):
    l1 = nn.L1Loss()
    generator.train()
    total = torch.zeros((), device=device)
    for lr_img, hr_img in dataloader:
        lr_img = lr_img.to(device, non_blocking=True)
        hr_img = hr_img.to(device, non_blocking=True)
        sr = generator(lr_img)
        loss = l1(sr, hr_img)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        total += loss.detach()
    return total.item() / len(dataloader)
