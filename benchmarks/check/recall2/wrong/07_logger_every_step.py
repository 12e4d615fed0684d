import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


def pretrain(model: nn.Module, loader, max_steps: int, device: torch.device) -> None:
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95),
                            weight_decay=0.1, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=max_steps)
    loss_fn = nn.CrossEntropyLoss()
    model.train()

    step = 0
    while step < max_steps:
        for tokens in loader:
            tokens = tokens.to(device, non_blocking=True)
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                logits = model(tokens[:, :-1])
                loss = loss_fn(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            sched.step()
            log.info(f"step {step} loss {loss:.4f} lr {sched.get_last_lr()[0]:.2e}")
            step += 1
            if step >= max_steps:
                break
    torch.save(model.state_dict(), "pretrained.pt")
