import torch
import torch.nn as nn


def train_epoch(model, dataloader, optimizer, criterion, scheduler, device, pad_idx, print_every=100):
    """One pass over the parallel corpus. Batches are (B, S) and (B, T) token ids."""
    model.train()
    window = torch.zeros((), device=device)

    for i, batch in enumerate(dataloader, start=1):
        src, tgt = batch["src"], batch["tgt"]
        src = src.to(device, non_blocking=True)
        tgt = tgt.to(device, non_blocking=True)

        tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
        causal = nn.Transformer.generate_square_subsequent_mask(
            tgt_in.size(1), device=device, dtype=torch.bool)
        src_pad = src.eq(pad_idx)

        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            logits = model(src, tgt_in, tgt_mask=causal, tgt_is_causal=True,
                           src_key_padding_mask=src_pad, memory_key_padding_mask=src_pad)
            loss = criterion(logits.flatten(0, 1), tgt_out.flatten())

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()

        window += loss.detach()
        if i % print_every == 0:
            print(f"{i:6d}/{len(dataloader)}  loss {window.item() / print_every:.3f}")
            window.zero_()
