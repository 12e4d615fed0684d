"""Fine-tunes a decoder of Llama-3.2-3B's shape, fully or with an adapter of peft, on texts of many lengths.

An ordinary script: it needs torch, transformers and peft, and knows nothing of flatout. Token numbers are random;
lengths are drawn so that their mean is that of MetaMathQA tokenised for Llama (210 tokens) and the longest are cut
at 768. Batches are made as many fine-tuning scripts make them: texts are taken 80 at a time, sorted, and cut into
batches, the longest first. Of 5000 such batches it runs those that decide the peak: the last two of a bucket, then
the first ten of the bucket with the longest texts. The cache is emptied every ten batches.
"""

import argparse
import contextlib
import math
import random

import torch
from peft import PeftConfig, get_peft_model
from peft.optimizers import create_lorafa_optimizer
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--adapter", help="folder of an adapter_config.json; without it all weights are trained")
parser.add_argument("--optimizer", default="AdamW", choices=["AdamW", "lora-fa"])
parser.add_argument("--optimizer-arguments", nargs="*", default=["lr=0.0001", "weight_decay=0.1"])
parser.add_argument("--keep-adapter-dtype", action="store_true", help="do not keep the adapter's weights in float32")
parser.add_argument("--longest", type=int, default=768, help="tokens at which texts are cut")
args = parser.parse_args()

BATCH, BUCKET, MEDIAN, SPREAD, TEXTS = 4, 80, 190, 0.45, 20_000
VOCABULARY, PAD = 128_256, 128_001

random.seed(0)
torch.manual_seed(0)
lengths = [min(args.longest, max(30, round(MEDIAN * math.exp(random.gauss(0, SPREAD))))) for _ in range(TEXTS)]
buckets = [sorted(lengths[i : i + BUCKET], reverse=True) for i in range(0, TEXTS, BUCKET)]
longest = max(range(len(buckets)), key=lambda i: sum(buckets[i][:BATCH]))
chosen = [buckets[longest - 1][-2 * BATCH :], buckets[longest][: 10 * BATCH]]

config = LlamaConfig(
    hidden_size=3072, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8, head_dim=128,
    intermediate_size=8192, vocab_size=VOCABULARY, tie_word_embeddings=True, max_position_embeddings=131_072,
    rms_norm_eps=1e-5, bos_token_id=128_000, eos_token_id=PAD, use_cache=True,
)  # fmt: skip
torch.set_default_dtype(torch.bfloat16)
model = LlamaForCausalLM(config)
torch.set_default_dtype(torch.float32)
model.to("cuda")
if args.adapter:
    adapter = PeftConfig.from_pretrained(args.adapter)
    model = get_peft_model(model, adapter, autocast_adapter_dtype=not args.keep_adapter_dtype)
model.train()

arguments = {name: float(value) for name, value in (pair.split("=") for pair in args.optimizer_arguments)}
if args.optimizer == "lora-fa":
    arguments["r"] = int(arguments["r"])
    arguments["lora_alpha"] = int(arguments["lora_alpha"])
    optimizer = create_lorafa_optimizer(model, **arguments)
else:
    optimizer = torch.optim.AdamW(model.parameters(), **arguments)
scheduler = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=500, num_training_steps=5000)

# How good the model is before training: with the adapter switched off, and on again afterwards.
with model.disable_adapter() if args.adapter else contextlib.nullcontext(), torch.inference_mode():
    model.eval()
    model(input_ids=torch.randint(0, 128_000, (BATCH, args.longest), device="cuda"))
    model.train()

step = 0
for bucket in chosen:
    torch.cuda.empty_cache()
    for i in range(0, len(bucket), BATCH):
        step += 1
        sizes = bucket[i : i + BATCH]
        ids = torch.full((BATCH, sizes[0]), PAD)
        mask = torch.zeros((BATCH, sizes[0]), dtype=torch.long)
        for row, size in enumerate(sizes):
            ids[row, :size] = torch.randint(0, 128_000, (size,))
            mask[row, :size] = 1
        batch = {"input_ids": ids.to("cuda"), "attention_mask": mask.to("cuda")}
        labels = batch["input_ids"].clone()
        for row, size in enumerate(sizes):
            labels[row, size + 1 :] = -100
        tokens = batch["attention_mask"].sum().item()
        optimizer.zero_grad()
        loss = model(**batch, labels=labels, num_items_in_batch=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if hasattr(getattr(model, "base_model", None), "update_and_allocate"):
            model.base_model.update_and_allocate(step)
        reserved = torch.cuda.max_memory_reserved()
        print(f"step {step}: {sizes[0]} tokens, loss {loss.item():.3f}, {reserved / 2**20:.0f} MiB")
