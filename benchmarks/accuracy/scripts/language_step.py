"""Steps of a language model of transformers with attention written out, in float32.

An ordinary script: it needs torch and transformers, and knows nothing of flatout.
"""

import argparse
import json
from pathlib import Path

import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("--config", required=True)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--batch-size", type=int, default=1)
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--train", action="store_true", help="forward and backward; forward alone otherwise")
args = parser.parse_args()

content = json.loads(Path(args.config).read_text())
kind = content.pop("model_type")
heads = {
    "bert": transformers.BertForPreTraining if args.train else transformers.BertForSequenceClassification,
    "gpt2": transformers.GPT2LMHeadModel,
    "opt": transformers.OPTForCausalLM,
    "switch_transformers": transformers.SwitchTransformersForConditionalGeneration,
}
config = transformers.AutoConfig.for_model(kind, **content)
config._attn_implementation = "eager"
model = heads[kind](config).to("cuda")
model.train(args.train)
tokens = torch.randint(0, config.vocab_size, (args.batch_size, args.length), device="cuda")
inputs = {"input_ids": tokens}
if kind == "switch_transformers":
    inputs["decoder_input_ids"] = tokens

for _ in range(args.steps):
    with torch.set_grad_enabled(args.train):
        outputs = model(**inputs)
        logits = outputs.prediction_logits if hasattr(outputs, "prediction_logits") else outputs.logits
        if args.train:
            logits.backward(torch.ones_like(logits))
    torch.cuda.synchronize()
