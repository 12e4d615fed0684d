"""Every mistake of the golden table is told in CUDA's own words, and mixtures that CUDA allows go through."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from golden_errors import devices, modes, shapes, types
from golden_errors.rows import Row
from golden_errors.scripts import HELPERS

if TYPE_CHECKING:
    from flatout.virtual.machine import Machine

VERSION = (int(torch.__version__.split(".")[0]), int(torch.__version__.split(".")[1]))
FAMILIES = {"types": types, "devices": devices, "shapes": shapes, "modes": modes}
ROWS = [pytest.param(row, id=f"{name}: {row.name}") for name, family in FAMILIES.items() for row in family.ROWS]
PAGE = Path(__file__).parents[2] / "docs" / "device-errors.md"


NAMES: dict[str, Any] = {}
exec(HELPERS, NAMES)
deterministic = NAMES["deterministic"]


def quietly(code: str) -> None:
    """Run the code of a row; what PyTorch warns of is not its subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(code, dict(NAMES))


def kinds(row: Row) -> tuple[type[BaseException], ...]:
    """The exception types that a row allows (which one it is can depend on PyTorch's version)."""
    if row.error == "accelerator":
        return (getattr(torch, "AcceleratorError", RuntimeError),)
    if row.error == "not implemented always":
        return (NotImplementedError,)
    if row.error == "not implemented":
        return (RuntimeError,) if VERSION < (2, 7) else (NotImplementedError,)
    if row.error == "RuntimeError or not implemented":
        return (RuntimeError, NotImplementedError)
    return (
        {
            "IndexError": IndexError,
            "TypeError": TypeError,
            "ValueError": ValueError,
            "AssertionError": AssertionError,
        }.get(row.error, RuntimeError),
    )


@pytest.mark.parametrize("row", ROWS)
def test_golden(row: Row, booted: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    if not row.applies(VERSION):
        quietly(row.code)
        return
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        quietly(row.code)
    assert str(caught.value) == row.text(VERSION)
    assert type(caught.value) in kinds(row)


LEGAL = [
    "gpu(2) + cpu()",
    "cpu() * gpu(2)",
    "gpu(2).add_(cpu())",
    "gpu(2).addcmul_(cpu(), gpu(2))",
    "gpu(2).lerp_(gpu(2), 0.5)",
    "gpu(4)[torch.tensor([1, 2])]",
    "gpu(4)[torch.ones(4, dtype=torch.bool)]",
    "gpu(4).__setitem__(torch.tensor([1, 2]), gpu(2))",
    "gpu(4).__setitem__(torch.tensor([1, 2], device='cuda'), cpu())",
    "gpu(4).__setitem__(slice(0, 2), cpu(2))",
    "gpu(2).copy_(cpu(2))",
    "cpu(2).copy_(gpu(2))",
    "gpu(2, 3).copy_(cpu(3))",
    "gpu(4).masked_fill(gpu(4) > 0, torch.tensor(0.0))",
    "torch.where(gpu(4) > 0, torch.tensor(1.0), gpu(4))",
    "torch.where(gpu(4) > 0, 1.0, gpu(4))",
    "torch.clamp(gpu(4), min=0)",
    "nn.utils.rnn.pack_padded_sequence(gpu(3, 5, 4), torch.tensor([5, 3, 2]), batch_first=True)",
    "nn.BatchNorm2d(3).cuda()(half(2, 3, 4, 4))",
    "F.cross_entropy(gpu(2, 3), torch.tensor([1, -100], device='cuda'))",
    "F.cross_entropy(gpu(2, 3), gpu(2, 3).softmax(-1))",
    "F.mse_loss(half(2), gpu(2))",
    "half(2) + gpu(2)",
    "gpu(2, 4).bfloat16() @ gpu(4, 2).bfloat16()",
    "gpu(3)[torch.tensor([-3], device='cuda')]",
    "torch.ones(3, dtype=torch.long, device='cuda').cumsum(0)",
    "with deterministic(): gpu(3).index_add(0, torch.tensor([1], device='cuda'), gpu(1))",
    "torch.equal(gpu(2), gpu(2))",
]


@pytest.mark.parametrize("code", LEGAL)
def test_what_cuda_allows_goes_through(code: str, booted: Machine) -> None:
    exec(code, dict(NAMES))


def test_warn_only(booted: Machine) -> None:
    with (
        deterministic(warn_only=True),
        pytest.warns(UserWarning, match="does not have a deterministic implementation") as said,
    ):
        torch.randn(9, device="cuda").histc(4)
    assert str(said[0].message).startswith("_histc_cuda with floating point input does not have")


@pytest.mark.skipif(VERSION >= (2, 10), reason="PyTorch from 2.10 on needs no setting for cuBLAS")
def test_cublas_setting_satisfies(booted: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with deterministic():
        torch.randn(2, 2, device="cuda") @ torch.randn(2, 2, device="cuda")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
def test_a_note_says_which_index(booted: Machine) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.nn.functional.cross_entropy(torch.randn(2, 3, device="cuda"), torch.tensor([0, 7], device="cuda"))
    assert caught.value.__notes__ == ["flatout: class 7 is out of range: there are 3"]


def test_launch_blocking_drops_the_remark(booted: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(RuntimeError) as caught:
        torch.randn(3, device="cuda")[torch.tensor([5], device="cuda")]
    assert "asynchronously" not in str(caught.value)


def test_devices_are_shown_as_a_script_sees_them() -> None:
    from flatout.virtual.cuda_errors import as_shown

    assert as_shown("found input tensor at meta:1 and hidden tensor at meta:100") == (
        "found input tensor at cuda:0 and hidden tensor at cpu"
    )
    assert (
        as_shown("got MetaHalfType, MetaBFloat16Type on meta") == "got torch.cuda.HalfTensor, CUDABFloat16Type on meta"
    )


def test_an_error_is_raised_at_the_users_line(booted: Machine) -> None:
    def users_function() -> None:
        torch.randn(2, device="cuda") + torch.randn(2)

    with pytest.raises(RuntimeError) as caught:
        users_function()
    assert caught.traceback[1].frame.code.name == "users_function"
    assert caught.traceback[1].lineno + 1 == inspect.getsourcelines(users_function)[1] + 1


def page() -> str:
    """The table of docs/device-errors.md."""
    lines = []
    for name, family in FAMILIES.items():
        lines += [
            f"### {name.capitalize()}",
            "",
            "| mistake | provoked by | PyTorch says | source |",
            "|---|---|---|---|",
        ]
        for row in family.ROWS:
            texts = [
                (f"from {since[0]}.{since[1]}: " if len(row.texts) > 1 else "")
                + f"`{text.splitlines()[0]}`{' ...' if chr(10) in text.rstrip() else ''}"
                for since, text in row.texts.items()
            ]
            until = f" (until {row.until[0]}.{row.until[1]})" if row.until else ""
            told = "<br>".join(texts).replace("|", "\\|")
            lines.append(f"| {row.name}{until} | `{row.code}` | {told} | {row.source} |")
        lines.append("")
    return "\n".join(lines)


def test_the_page_shows_the_table() -> None:
    """``FLATOUT_WRITE_PAGES=1 pytest tests/virtual/test_cuda_errors.py`` writes it anew."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, _ = text.partition("### Types")
    if os.environ.get("FLATOUT_WRITE_PAGES") == "1":
        PAGE.write_text(head + page(), encoding="utf-8")
        return
    assert text == head + page()
