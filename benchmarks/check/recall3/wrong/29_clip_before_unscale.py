import torch
from torch.nn.utils import clip_grad_norm_


def train_epoch(model, loader, optimizer, scaler, device, clip=1.0):
    model.train()
    total = torch.zeros((), device=device)
    for wav, tokens, lens in loader:
        wav = wav.to(device, non_blocking=True)
        tokens = tokens.to(device, non_blocking=True)
        lens = lens.to(device, non_blocking=True)
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(wav, tokens, lens)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach()
    return total / len(loader)
