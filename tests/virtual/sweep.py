"""PyTorch's own samples for its operators, on CPU and virtual GPU: the same shapes, dtypes, devices and strides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map


class Difference(Exception):
    """What the virtual GPU gave differs from what the CPU gave."""


def to_gpu(value: Any) -> Any:
    """A copy of a sample's argument on the GPU. CPU scalars stay: an operator may take them as they are."""
    if isinstance(value, torch.Tensor):
        moved = value.detach().to("cuda")
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("cuda") if isinstance(value, torch.device) else "cuda"
    return value


def _map(function: Callable[[Any], Any], sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return tree_map(function, (sample.input, tuple(sample.args), dict(sample.kwargs)))


def compare(cpu: Any, gpu: Any, *, strides: bool, where: str) -> None:
    """Raises Difference unless the two results agree in everything but their values."""
    expected, one = tree_flatten(cpu)
    found, other = tree_flatten(gpu)
    if len(expected) != len(found):
        raise Difference(f"{where}: {len(expected)} results on the CPU, {len(found)} on the GPU ({one}, {other})")
    for number, (a, b) in enumerate(zip(expected, found)):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            raise Difference(f"{where} {number}: {type(a).__name__} on the CPU, {type(b).__name__} on the GPU")
        if not isinstance(a, torch.Tensor):
            continue
        for name in ("shape", "dtype", "layout", "requires_grad"):
            if getattr(a, name) != getattr(b, name):
                raise Difference(
                    f"{where} {number}: {name} {getattr(a, name)} on the CPU, {getattr(b, name)} on the GPU"
                )
        if b.device.type != "cuda":
            raise Difference(f"{where} {number}: on {b.device}")
        if strides and a.layout is torch.strided and a.numel() > 1:
            lengths = [(s, t) for n, s, t in zip(a.shape, a.stride(), b.stride()) if n > 1]
            if any(s != t for s, t in lengths):
                raise Difference(f"{where} {number}: strides {a.stride()} on the CPU, {b.stride()} on the GPU")


def _run(function: Callable[..., Any], arguments: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Any:
    first, args, kwargs = arguments
    return function(first, *args, **kwargs)


def _gradients(result: Any, arguments: Any) -> list[torch.Tensor | None]:
    outputs = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [t for t in tree_flatten(arguments)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not inputs:
        return []
    return list(torch.autograd.grad(outputs, inputs, [torch.ones_like(t) for t in outputs], allow_unused=True))


def samples(info: Any, count: int) -> Iterator[Any]:
    """The operator's first samples in float32, with gradients where it has them."""
    backward = bool(info.supports_autograd)
    yield from islice(info.sample_inputs("cpu", torch.float32, requires_grad=backward), count)


def check(info: Any, count: int, *, strides: bool = True) -> int:
    """Run an operator's samples on both. Returns how many ran; raises Difference, or what the virtual GPU raised."""
    ran = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples(info, count):
            try:
                cpu = _map(lambda value: value, sample)
                expected = _run(info.op, cpu)
                gradients = _gradients(expected, cpu)
            except Exception:  # the sample is not for the CPU
                continue
            gpu = _map(to_gpu, sample)
            found = _run(info.op, gpu)
            compare(expected, found, strides=strides, where="result")
            compare(gradients, _gradients(found, gpu), strides=False, where="gradient")
            ran += 1
    return ran
