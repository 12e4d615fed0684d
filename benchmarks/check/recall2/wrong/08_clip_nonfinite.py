import torch
import torch.nn.functional as F

MAX_NORM = 5.0
LOG_EVERY = 200


def train_force_field(model, loader, optimizer, scheduler, device, energy_w=1.0, force_w=100.0):
    model.train()
    for step, batch in enumerate(loader):
        pos = batch["pos"].to(device, non_blocking=True).requires_grad_(True)
        z = batch["z"].to(device, non_blocking=True)
        e_ref = batch["energy"].to(device, non_blocking=True)
        f_ref = batch["forces"].to(device, non_blocking=True)

        energy = model(z, pos)
        forces = -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]
        loss = energy_w * F.mse_loss(energy, e_ref) + force_w * F.mse_loss(forces, f_ref)

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, error_if_nonfinite=True)
        optimizer.step()
        scheduler.step()

        if step % LOG_EVERY == 0:
            value = norm.item()
            print(f"{step:6d} loss {loss.item():.5f} |g| {value:.3f}")
