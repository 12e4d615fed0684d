import torch
import torch.nn.functional as F
from tqdm import tqdm


def train_one_epoch(net, loader, optimizer, scheduler, device, epoch):
    net.train()
    running = 0.0
    for images, masks in tqdm(loader, desc=f"epoch {epoch}"):
        images = images.to(device, non_blocking=True)
        masks = masks.to(device, non_blocking=True)

        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = net(images)
            loss = F.cross_entropy(logits, masks, ignore_index=255)
        loss.backward()
        optimizer.step()
        running += loss.detach()
    scheduler.step()
    return (running / len(loader)).item()
