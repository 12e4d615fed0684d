import torch
import torchvision

torch.set_float32_matmul_precision("high")


def train(loader, epochs=5):
    model = torchvision.models.vit_b_16(weights=None).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_fn = torch.nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for x, y in loader:
            compiled = torch.compile(model)
            x = x.cuda(non_blocking=True)
            y = y.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_fn(compiled(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        torch.save(model.state_dict(), f"vit_{epoch}.pt")
