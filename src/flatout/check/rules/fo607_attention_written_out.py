"""FO607: attention as products and a softmax of its own, where PyTorch has one fused operation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatout.check.attention import attentions
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

# Files that have a fused one, too, and this as the way for when it is missing.
_FUSED = re.compile(r"scaled_dot_product|flash_?attn|flash_?attention|xformers|memory_efficient|flex_attention", re.I)


def find(module: Module) -> Iterator[Hit]:
    if _FUSED.search(module.text.text) or not module.torch_at_least(2, 0):
        return
    for found in attentions(module):
        query, key, value = (module.text.short(item, 24) for item in (found.query, found.key, found.value))
        options = ", attn_mask=..." * found.masked + ", dropout_p=..." * found.dropped
        yield Hit(
            found.node,
            f"attention of `{query}`, `{key}` and `{value}` is written out: the matrix of all scores is stored, and "
            "read and written again by each step from the product to here",
            f"Use `F.scaled_dot_product_attention({query}, {key}, {value}{options})`; it scales by 1/sqrt(d) itself.",
        )


RULE = Rule("FO607", "attention-written-out", "medium", find, needs=("softmax", "Softmax"))
