"""FO606: an output layer whose width keeps 16-bit matrix products off their fast path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatout.check.devices import argument
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule

# 16 bytes, in which tensor cores load, are eight 16-bit numbers (NVIDIA, Matrix Multiplication Background).
_UNIT = 8
_PADDED = 64  # also whole tiles
_SMALLEST = 1024  # a narrow output layer costs nothing either way

_HALF = re.compile(r"autocast\(|bfloat16|float16|\.half\(\)|bf16|fp16", re.I)


def find(module: Module) -> Iterator[Hit]:
    if not _HALF.search(module.text.text):
        return
    for call in module.calls("torch.nn.Linear"):
        for position, name in enumerate(("in_features", "out_features")):
            value = argument(call, position, name)
            size = module.constant(value) if value is not None else None
            if isinstance(size, int) and not isinstance(size, bool) and size >= _SMALLEST and size % _UNIT:
                padded = -(-size // _PADDED) * _PADDED
                yield Hit(
                    call,
                    f"`{module.text.short(call)}` is {size} wide, no multiple of {_UNIT}: its rows of 16-bit numbers "
                    "do not begin at whole 16 bytes, as tensor cores load them",
                    f"Make it {padded}; the {padded - size} more classes never occur.",
                    evidence={"size": size, "padded": padded},
                )
                break


RULE = Rule("FO606", "width-not-multiple-of-8", "low", find, needs=("Linear",))
