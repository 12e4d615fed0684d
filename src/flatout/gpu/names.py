"""GPU names as people write them.

A name is taken apart into words. A GPU is meant when its family's words are all in the name and every word of the name
belongs to the GPU. Whole words are compared, never parts of them: L40S is not L4, A10G is not A10.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from flatout.errors import UnknownGPUError
from flatout.gpu.specification import GPU
from flatout.gpu.table import all_gpus

# Said of any GPU, so they tell nothing.
_NOISE = frozenset({"nvidia", "gpu", "tensor", "core", "graphics", "card"})
# `100gb`, `80 GB`, `80g`, `80GiB`; not the g of A10G.
_GIGABYTES = re.compile(r"(?<![a-z0-9])(\d+)\s*g(?:i?b)?(?![a-z0-9])")
# Words that people glue to their neighbours: rtx4090, 3080ti, 4070tisuper, h100sxm, a100pcie, 6000ada.
_GLUED = re.compile(
    r"(rtx|gtx|titan(?=rtx|v\b)|quadro|tesla|super|pcie|sxm(?:\d(?!\d))?|nvl(?!ink)|hbm\de?|ada|pro(?=\d)|(?<=\d)ti)"
)


def words_of(name: str) -> frozenset[str]:
    """The words of a name, lower case, e.g. `RTX4070Ti-Super 16GB` -> rtx, 4070, ti, super, 16gb."""
    text = re.sub(r"[^a-z0-9]+", " ", name.lower())
    text = re.sub(r"\bpci e\b", "pcie", text)
    text = _GLUED.sub(r" \1 ", text)
    text = _GIGABYTES.sub(r"\1gb", text)
    return frozenset(text.split()) - _NOISE


def _vocabulary(gpu: GPU) -> frozenset[str]:
    gib = round(gpu.memory_bytes / 1024**3)
    words = words_of(" ".join((gpu.name, gpu.label, gpu.family, *gpu.words))) | {f"{gib}gb", str(gib)}
    if any(word.startswith("sxm") for word in words):
        words |= {"sxm"}
    return words


def resolve(name: str, gpus: tuple[GPU, ...]) -> GPU | None:
    """The first of `gpus` that `name` may mean, exact names and labels before all; `None` if there is none."""
    wanted = words_of(name)
    for gpu in gpus:
        if wanted and wanted in (words_of(gpu.name), words_of(gpu.label)):
            return gpu
    for gpu in gpus:
        if words_of(gpu.family) <= wanted <= _vocabulary(gpu):
            return gpu
    return None


def find(name: str, file: Path | None = None) -> GPU:
    """The GPU that `name` means: `h100`, `H100-SXM`, `NVIDIA H100 80GB HBM3`, `4090`, `a100-40gb`, `Tesla T4`.

    Case, spaces, dashes and the word NVIDIA do not matter. A family that comes in variants means its first one in the
    table: `h100` and `a100` the SXM module with 80 GB, `v100` the SXM module with 16 GB. `file` holds GPUs of the user,
    which come before flatout's own, as do those of `user_file()`.

    Raises `UnknownGPUError`, which lists the nearest names, and `UnreadableFileError` for a damaged file.
    """
    gpus = all_gpus(file)
    found = resolve(name, gpus)
    if found is None:
        raise UnknownGPUError(_unknown(name, gpus))
    return found


def nearest(name: str, gpus: tuple[GPU, ...], count: int = 5) -> list[str]:
    """Labels of the GPUs whose names are nearest to `name`: those that share a family's word, then look-alikes."""
    wanted = words_of(name)
    numbered = {word for word in wanted if any(letter.isdigit() for letter in word)}
    sharing = [gpu.label for gpu in gpus if words_of(gpu.family) & numbered]
    labels = {_squeezed(text): gpu.label for gpu in reversed(gpus) for text in (gpu.family, gpu.label)}
    alike = difflib.get_close_matches(_squeezed(name), list(labels), n=count, cutoff=0.5)
    return list(dict.fromkeys((*sharing, *(labels[text] for text in alike))))[:count]


def _squeezed(text: str) -> str:
    return "".join(re.findall(r"[a-z0-9]+", text.lower().replace("nvidia", "")))


def _unknown(name: str, gpus: tuple[GPU, ...]) -> str:
    near = nearest(name, gpus)
    hint = f"Nearest names: {', '.join(near)}." if near else "See docs/gpus.md for the names."
    return f'no GPU named "{name}" is known. {hint} A GPU of your own can be described in a TOML file (docs/gpus.md).'
