"""Hugging Face's Trainer on a configuration with random weights: nothing is downloaded."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=["gpt2", "bert"], default="gpt2")
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--vocabulary", type=int, default=5000)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--max-steps", type=int, default=4)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--optim", default="adamw_torch")
parser.add_argument("--evaluate", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)


class RandomText(Dataset):
    def __init__(self, count):
        self.ids = torch.randint(0, args.vocabulary, (count, args.length), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index]
        labels = ids if args.model == "gpt2" else index % 2
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


if args.model == "gpt2":
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=args.vocabulary,
            n_positions=args.length,
            n_embd=args.width,
            n_layer=args.layers,
            n_head=args.heads,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
else:
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=args.vocabulary,
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.heads,
            intermediate_size=4 * args.width,
            max_position_embeddings=args.length,
        )
    )

if args.gradient_checkpointing:
    model.gradient_checkpointing_enable()

with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder,
            max_steps=args.max_steps,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulate,
            fp16=args.fp16,
            bf16=args.bf16,
            optim=args.optim,
            learning_rate=5e-5,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            dataloader_pin_memory=torch.cuda.is_available(),
        ),
        train_dataset=RandomText(args.batch_size * args.accumulate * args.max_steps),
        eval_dataset=RandomText(2 * args.batch_size),
    )
    result = trainer.train()
    print(f"{result.global_step} steps, training loss {result.training_loss:.4f}, on {trainer.args.device}")
    if args.evaluate:
        print({k: round(v, 4) for k, v in trainer.evaluate().items() if k == "eval_loss"})
