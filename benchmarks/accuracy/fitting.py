"""How the constants of the time model are fitted: least mean of the logarithm's size, held near priors.

The constants that a kernel's time is divided by (how well a kind uses arithmetic or memory) are found by gradient; the
others change the shape of the model and are found one by one, each with the former fitted anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from flatout.costs.efficiency import Efficiency
from flatout.costs.time import ideal_compute_seconds, ideal_memory_seconds

Samples = Sequence[Any]
START = Efficiency(
    launch_seconds=2.5e-6,
    datapath={"tensor": 0.9, "cores64": 0.95, "cores128": 0.8},
    compute={},
    memory={},
    tile_half={"tensor": 24.0, "cores64": 4.0, "cores128": 8.0},
    prologue_depth={"tensor": 32.0, "cores64": 16.0, "cores128": 16.0},
    unaligned=0.5,
    cache_speed=2.5,
    energy={"tensor": 0.2, "cores64": 1.4, "cores128": 1.4},
)
"""Where the search starts, and what is kept where nothing says otherwise. 0.95 and 0.8: 64 lanes can be fed by shared
memory, 128 not quite (see `engine.EngineName`). Energy of tensor cores: a seventh of the ordinary cores', assumed."""

COMPUTE_PRIOR = {"depthwise": 0.15, "convolution_grouped": 0.5, "attention": 0.7}
MEMORY_PRIOR = {
    "strided": 0.4, "gather": 0.6, "scatter": 0.5, "sort": 0.3, "batch_norm_backward": 0.7, "softmax_backward": 0.7,
    "layer_norm_weights": 0.5, "pooling_backward": 0.5, "reduction": 0.75, "depthwise": 0.5,
}  # fmt: skip
MEMORY_PRIOR_OTHER = 0.85
SPREAD = 0.35
"""How far from its prior a constant goes without penalty to speak of, as the standard deviation of its logarithm."""
WIDE = {"convolution_grouped_few": 3.0, "convolution_grouped": 1.0, "depthwise": 1.0, "gather": 1.0, "scatter": 1.0}
"""The same for kinds whose priors are no more than guesses."""
WEIGHTS = {"timm": 1.0, "neusight": 1.0, "single": 0.5}
"""Of each set, whatever its number of rows."""
SMOOTH = 0.03
"""Errors below that count by their square, so that the best is not a corner."""


def _prior(table: dict[str, float], kind: str, default: float) -> float:
    return next((value for name, value in table.items() if kind.startswith(name)), default)


class Problem:
    """All kernels of all samples as arrays. `compute` and `memory` are seconds if kinds used everything fully."""

    def __init__(self, samples: Samples, constants: Efficiency) -> None:
        self.samples = samples
        rows = [(i, k, n) for i, sample in enumerate(samples) for k, n in sample.kernels]
        self.kinds = sorted({kernel.kind for _, kernel, _ in rows})
        number = {kind: i for i, kind in enumerate(self.kinds)}
        self.rows = rows
        self.sample = np.array([i for i, _, _ in rows])
        self.kind = np.array([number[kernel.kind] for _, kernel, _ in rows])
        self.times = np.array([n for _, _, n in rows], float)
        self.launches = np.array([n * kernel.launches for _, kernel, n in rows], float)
        self.measured = np.array([sample.seconds for sample in samples])
        self.gpus = [sample.gpu for sample in samples]
        counts = {name: sum(s.source == name for s in samples) for name in WEIGHTS}
        weight = np.array([WEIGHTS[s.source] / counts[s.source] for s in samples])
        self.weight = weight / weight.sum()
        self.prior = np.log(
            [
                *(_prior(COMPUTE_PRIOR, kind, 1.0) for kind in self.kinds),
                *(_prior(MEMORY_PRIOR, kind, MEMORY_PRIOR_OTHER) for kind in self.kinds),
                START.launch_seconds,
            ]
        )
        self.spread = np.full(len(self.prior), SPREAD)
        for i, kind in enumerate(self.kinds):
            self.spread[i] = self.spread[len(self.kinds) + i] = _prior(WIDE, kind, SPREAD)
        matmul = self.kinds.index("matmul")
        self.spread[matmul] = 1e-3  # it is what the others are relative to
        self.set(constants)

    def set(self, constants: Efficiency) -> None:
        """Take over the constants that change the shape of the model."""
        self.compute = np.array([ideal_compute_seconds(k, self.gpus[i], constants) for i, k, _ in self.rows])
        self.memory = np.array([ideal_memory_seconds(k, self.gpus[i], constants) for i, k, _ in self.rows])

    def loss(self, p: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its gradient at the logarithms `p`."""
        n = len(self.kinds)
        compute = self.times * self.compute / np.exp(p[self.kind])
        memory = self.times * self.memory / np.exp(p[n + self.kind])
        launch = self.launches * np.exp(p[-1])
        by_compute = compute > memory
        time = np.where(by_compute, compute, memory)
        total = np.bincount(self.sample, time + launch, len(self.samples))
        off = np.log(total / self.measured)
        size = np.sqrt(off**2 + SMOOTH**2)
        away = (p - self.prior) / self.spread
        value = float(self.weight @ size + 0.5 * STIFFNESS * away @ away)
        slope = (self.weight * off / size / total)[self.sample]
        gradient = STIFFNESS * away / self.spread
        gradient[:n] -= np.bincount(self.kind, np.where(by_compute, slope * time, 0), n)
        gradient[n : 2 * n] -= np.bincount(self.kind, np.where(by_compute, 0, slope * time), n)
        gradient[-1] += float(slope @ launch)
        return value, gradient

    def solve(self, start: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """The best logarithms for the shape that is set, and their loss."""
        from scipy.optimize import minimize  # for fitting alone; scores need it not

        best = minimize(self.loss, self.prior if start is None else start, jac=True, method="L-BFGS-B")
        return float(best.fun), best.x


STIFFNESS = 0.002
"""How much a constant one spread away from its prior costs, as an error."""

# The constants that change the shape: where they are, and the factors that are tried.
_SHAPE = (
    ("datapath", "tensor"), ("datapath", "cores64"), ("datapath", "cores128"), ("tile_half", "tensor"),
    ("tile_half", "cores64"), ("tile_half", "cores128"), ("prologue_depth", "tensor"), ("prologue_depth", "cores64"),
    ("prologue_depth", "cores128"), ("energy", "cores"), ("unaligned", ""), ("cache_speed", ""),
)  # fmt: skip
_HIGHEST = {"datapath": 1.15, "unaligned": 1.0}
SHAPE_STIFFNESS = 0.002


def fit(timm: Samples, models: Samples, singles: Samples) -> Efficiency:
    """The constants that fit these samples best."""
    problem = Problem([*timm, *models, *singles], START)
    constants = START
    value, p = problem.solve()
    value += _away(constants)
    for step in (1.5, 1.25, 1.1):
        for name, engine in _SHAPE:
            for factor in (step, 1 / step):
                while True:
                    tried = _changed(constants, name, engine, factor)
                    if tried is None:
                        break
                    problem.set(tried)
                    new_value, new_p = problem.solve(p)
                    new_value += _away(tried)
                    if new_value >= value - 1e-5:
                        break
                    constants, value, p = tried, new_value, new_p
    return _filled(constants, problem.kinds, p)


def _changed(constants: Efficiency, name: str, engine: str, factor: float) -> Efficiency | None:
    content = msgspec.to_builtins(constants)
    if not engine:
        content[name] *= factor
        new = [content[name]]
    else:
        names = ["cores64", "cores128"] if engine == "cores" else [engine]
        for one in names:
            content[name][one] *= factor
        new = [content[name][one] for one in names]
    if max(new) > _HIGHEST.get(name, float("inf")):
        return None
    return msgspec.convert(content, Efficiency)


def _away(constants: Efficiency) -> float:
    """What it costs to be away from where the search started."""
    total = 0.0
    for name, engine in _SHAPE:
        now, then = getattr(constants, name), getattr(START, name)
        if engine:
            one = "cores64" if engine == "cores" else engine
            now, then = now[one], then[one]
        spread = 0.1 if name == "datapath" else 0.7
        total += 0.5 * SHAPE_STIFFNESS * (np.log(now / then) / spread) ** 2
    return total


def _filled(constants: Efficiency, kinds: Sequence[str], p: np.ndarray) -> Efficiency:
    """With what the gradient found."""
    n = len(kinds)
    content = msgspec.to_builtins(constants)
    content["launch_seconds"] = float(np.exp(p[-1]))
    content["compute"] = {k: float(np.exp(p[i])) for i, k in enumerate(kinds) if abs(p[i]) > 1e-3}
    content["memory"] = {"other": MEMORY_PRIOR_OTHER} | {k: float(np.exp(p[n + i])) for i, k in enumerate(kinds)}
    return msgspec.convert(content, Efficiency)


def as_toml(constants: Efficiency, date: str) -> str:
    """The file that flatout ships."""
    content = msgspec.to_builtins(constants)
    plain = {name: value for name, value in content.items() if not isinstance(value, dict)}
    lines = [
        "# Written by benchmarks/accuracy/fit_costs.py --write; what each constant means: flatout/costs/efficiency.py.",
        *(f"{name} = {value:.4g}" for name, value in plain.items()),
        "",
        "[fitted]",
        f"date = {json.dumps(date)}",
        'on = "timm training steps, RTX 3090, fp16 AMP, fitting half of the families; NeuSight float32, five GPUs"',
        'assumed = "energy.tensor, and whatever no row of those has: kinds of kernel that are not named here"',
    ]
    for name, value in content.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]", *(f"{key} = {number:.4g}" for key, number in sorted(value.items()))]
    return "\n".join(lines) + "\n"
