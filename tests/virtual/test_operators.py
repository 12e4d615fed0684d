"""PyTorch's own samples for its operators, on the CPU and on the virtual GPU.

By default a few operators, drawn by seed; all of them with FLATOUT_SWEEP=1 (some minutes).
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import warnings
from typing import Any

import pytest

from flatout.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("machine")

if importlib.util.find_spec("expecttest") is None:
    pytest.skip("PyTorch's operator samples need the package expecttest", allow_module_level=True)

_WHOLE = os.environ.get("FLATOUT_SWEEP") == "1"
_DRAWN, _SEED = 40, 20261
_SAMPLES = 6 if _WHOLE else 2

# Operators whose result differs from the CPU's for a reason.
KNOWN = {
    "native_batch_norm": "CUDA keeps what it saved in evaluation too; the CPU gives empty tensors",
    "_native_batch_norm_legit": "as native_batch_norm",
    "tensor_split": "CUDA too wants the indices on the CPU; the sample moves them",
    "sparse.mm": "CUDA has no such kernel",
    "fft.hfft2": "the layout is cuFFT's",
    "new_empty_strided": "content of memory that nothing was written to",
}
# Operators that the virtual GPU refuses by name.
REFUSED = {
    "linalg.lstsq": "no meta kernel, and the CPU's default driver is not CUDA's",
    "sparse.sampled_addmm": "sparse tensors are not modelled",
    "to_sparse": "sparse tensors are not modelled",
}
# Operators whose layout is CUDA's own (cuFFT, cuSOLVER), not the CPU's.
OTHER_STRIDES = frozenset({"fft.rfftn", "fft.rfft2", "fft.hfftn", "fft.ihfftn", "pca_lowrank", "svd_lowrank"})


def _names() -> list[str]:
    """The operators, without importing PyTorch's list of them unless it is used."""
    return [f"part-{number}" for number in range(40)] if _WHOLE else [f"drawn-{number}" for number in range(5)]


@pytest.fixture(scope="module")
def operators() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torch.testing._internal.common_methods_invocations import op_db

    usable = [info for info in op_db if torch.float32 in info.supported_dtypes("cpu")]
    return sorted(usable, key=lambda info: (info.name, info.variant_test_name))


@pytest.mark.parametrize("which", _names())
def test_operators_give_what_the_cpu_gives(which: str, operators: list[Any]) -> None:
    from sweep import Difference, check

    kind, _, number = which.partition("-")
    if kind == "drawn":
        chosen = random.Random(_SEED).sample(operators, _DRAWN)[int(number) :: 5]
    else:
        chosen = operators[int(number) :: 40]
    failures = []
    for info in chosen:
        if info.name in KNOWN:
            continue
        try:
            check(info, _SAMPLES, strides=info.name not in OTHER_STRIDES)
        except UnsupportedError as error:
            if info.name not in REFUSED:
                failures.append(f"{info.name} {info.variant_test_name}: {error}")
        except Difference as difference:
            failures.append(f"{info.name} {info.variant_test_name}: {difference}")
        except Exception as error:
            if info.name not in REFUSED:
                failures.append(f"{info.name} {info.variant_test_name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


_BINARY = (
    "add", "sub", "mul", "true_divide", "floor_divide", "remainder", "fmod", "pow", "eq", "lt", "bitwise_and",
    "logical_and", "maximum", "copysign", "xlogy", "float_power", "rsub",
)  # fmt: skip


def test_numbers_take_no_part_in_type_promotion() -> None:
    import torch

    def run(name: str, dtype: torch.dtype, number: float, device: str, *, swapped: bool) -> Any:
        x = torch.tensor([1, 2, 5], device=device).to(dtype)
        try:
            function = getattr(torch, name)
            result = function(number, x) if swapped else function(x, number)
        except (RuntimeError, TypeError):
            return None  # which dtypes an operator refuses is another matter
        return result.dtype, result.tolist()

    for case in itertools.product(_BINARY, (torch.int32, torch.int64, torch.float16, torch.float32), (3, 2.5, True)):
        for swapped in (False, True):
            cpu = run(*case, "cpu", swapped=swapped)
            if cpu is not None:
                assert run(*case, "cuda", swapped=swapped) == cpu, case
