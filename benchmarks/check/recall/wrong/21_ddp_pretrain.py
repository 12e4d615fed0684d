import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from gpt import GPT, GPTConfig, TokenBlocks


def main(epochs=4, batch_size=24, lr=6e-4):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.set_float32_matmul_precision("high")

    dataset = TokenBlocks("openwebtext.bin", block_size=1024)
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=4,
                        pin_memory=True, persistent_workers=True, drop_last=True)

    model = DDP(GPT(GPTConfig()).to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))

    model.train()
    for epoch in range(epochs):
        for it, (x, y) in enumerate(loader):
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(x)
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            if it % 100 == 0 and dist.get_rank() == 0:
                print(f"epoch {epoch} it {it} loss {loss.item():.3f}")
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), f"gpt_{epoch}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
