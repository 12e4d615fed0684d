import torch
import torch.distributed as dist
import torchvision.transforms as T
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.datasets import ImageFolder


def main(local_rank, root, model, epochs=90):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    tf = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])
    ds = ImageFolder(root, tf)
    sampler = DistributedSampler(ds, shuffle=True)
    loader = DataLoader(ds, batch_size=64, sampler=sampler, num_workers=0,
                        pin_memory=True)
    model = DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ce = torch.nn.CrossEntropyLoss().cuda()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        for img, target in loader:
            img, target = img.cuda(non_blocking=True), target.cuda(non_blocking=True)
            optimizer.zero_grad()
            ce(model(img), target).backward()
            optimizer.step()
    dist.destroy_process_group()
