import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def build(model_cls, local_rank, resume=None):
    """Called on every rank, after init_process_group."""
    torch.cuda.set_device(local_rank)
    model = model_cls().cuda(local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    start_epoch = 0
    if resume:
        ckpt = torch.load(resume, weights_only=True)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        start_epoch = ckpt["epoch"] + 1
    return DDP(model, device_ids=[local_rank]), optimizer, start_epoch
