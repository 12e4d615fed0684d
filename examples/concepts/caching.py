"""Allocated, reserved, cached: run it on a GPU, or under `flatout predict --gpu t4 --steps 100`."""

import torch


def show(what):
    allocated, reserved = torch.cuda.memory_allocated() >> 20, torch.cuda.memory_reserved() >> 20
    print(f"{what:34} allocated {allocated:4} MiB, reserved {reserved:4} MiB, of that cached {reserved - allocated:4} MiB")


a = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
b = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
show("two tensors of 256 MiB")
del a
show("del a")
torch.cuda.empty_cache()
show("empty_cache()")
c = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
show("a third tensor: the driver is asked")
del c
d = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
show("del c, a fourth of 200 MiB: reused")
