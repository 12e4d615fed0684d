import argparse
import gc

import torch
from transformers import AutoModelForCausalLM


def finetune(args: argparse.Namespace, loader):
    torch.set_float32_matmul_precision("high")
    model = AutoModelForCausalLM.from_pretrained(args.base).cuda()
    model.train()
    optim = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            ids = batch["input_ids"].cuda(non_blocking=True)
            attn = batch["attention_mask"].cuda(non_blocking=True)
            labels = ids.masked_fill(attn == 0, -100)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, attention_mask=attn, labels=labels).loss
            loss.backward()
            optim.step()
            optim.zero_grad()
            gc.collect()
            torch.cuda.empty_cache()
            if step % 100 == 0:
                print(epoch, step, loss.item())
    model.save_pretrained(args.out)
