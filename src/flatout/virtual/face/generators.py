"""Random number generators of the virtual GPU. They never touch the CPU's generator."""

from __future__ import annotations

import secrets
import struct
from typing import Any

import torch

from flatout.virtual import machine as machines
from flatout.virtual import randomness
from flatout.virtual.face.patches import Patches

_PLAIN: Any = torch.Generator
# Source: c10/core/GeneratorImpl.h, default_rng_seed_val.
_DEFAULT_SEED = 67280421310721
# Philox, CUDA's generator, draws four numbers at once.
_NUMBERS_AT_ONCE = 4
# Any odd numbers spread seed and offset over the bits. These are those of Knuth's linear congruential generator, MMIX.
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407


class CUDAGenerator(_PLAIN):  # type: ignore[misc]
    """A generator of the GPU. Its state is CUDA's: a seed and an offset, 16 bytes.

    The numbers of each operation come from a CPU generator that is seeded from both.
    """

    def __new__(cls, number: int = 0) -> Any:
        self = _PLAIN.__new__(cls, device="cpu")
        self.number = number
        self.offset = 0
        self._seed = _DEFAULT_SEED
        randomness.register(self._cdata, self)
        return self

    number: int
    offset: int
    _seed: int

    def __init__(self, number: int = 0) -> None: ...

    @property
    def device(self) -> torch.device:
        """The GPU that it belongs to."""
        return torch.device("cuda", self.number)

    def manual_seed(self, seed: int) -> Any:
        """Begin again from this seed."""
        self._seed = int(seed)
        self.offset = 0
        return self

    def seed(self) -> int:
        """Begin again from a random seed, and say which."""
        self.manual_seed(secrets.randbits(52))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that it began from."""
        return self._seed

    def next_seed(self) -> int:
        """What decides the numbers of one operation; the next operation gets others."""
        mixed = (self._seed * _MULTIPLIER + self.offset * _INCREMENT) & (2**63 - 1)
        self.offset += _NUMBERS_AT_ONCE
        return mixed

    def get_offset(self) -> int:
        """How many numbers were drawn."""
        return self.offset

    def set_offset(self, offset: int) -> Any:
        """Go on as if that many numbers had been drawn."""
        self.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Seed and offset, 16 bytes on the CPU."""
        data = bytearray(struct.pack("<Qq", self.initial_seed() & (2**64 - 1), self.offset))
        return torch.frombuffer(data, dtype=torch.uint8).clone()

    def set_state(self, new_state: torch.Tensor) -> Any:
        """Go on from a state that `get_state` gave."""
        if new_state.dtype != torch.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, but got {new_state.dtype}")
        if new_state.numel() not in (8, 16):
            raise RuntimeError("RNG state is wrong size")
        content = bytes(new_state.cpu().tolist())
        seed, offset = struct.unpack("<Qq", content.ljust(16, b"\0"))
        self._seed, self.offset = (seed - 2**64 if seed >= 2**63 else seed), offset
        return self

    def clone_state(self) -> Any:
        """Another generator in the same state."""
        other = CUDAGenerator(self.number)
        return other.set_state(self.get_state())

    def graphsafe_get_state(self) -> Any:
        """The state as an object, for CUDA graphs."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Any) -> Any:
        """Go on from such a state."""
        return self.set_state(state.get_state())

    def __reduce__(self) -> Any:
        return _rebuild, (self.number, self.get_state())


def _rebuild(number: int, state: torch.Tensor) -> CUDAGenerator:
    generator: CUDAGenerator = CUDAGenerator(number)
    generator.set_state(state)
    return generator


def construct_generator(cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Generator(device="cuda")``."""
    if cls is _PLAIN:
        device = args[0] if args else kwargs.get("device", "cpu")
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if device.type == "cuda":
            torch.cuda._lazy_init()
            return type.__call__(CUDAGenerator, machines.current().gpu(device.index).number)
    return type.__call__(cls, *args, **kwargs)


def install(patches: Patches) -> None:
    """Give each GPU its default generator."""
    made = tuple(CUDAGenerator(gpu.number) for gpu in machines.current().gpus)
    randomness.set_default(made[0])
    patches.set(torch.cuda, "default_generators", made)
    patches.set(torch._C, "_accelerator_getDefaultGenerator", lambda number: made[number])
