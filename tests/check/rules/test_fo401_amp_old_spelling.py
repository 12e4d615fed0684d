from __future__ import annotations

import warnings

import pytest
from checking import fixed, hits, lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'),
        ("torch.cuda.amp.autocast(enabled=on)", 'torch.amp.autocast("cuda", enabled=on)'),
        ("torch.cuda.amp.autocast(on)", 'torch.amp.autocast("cuda", enabled=on)'),
        (
            "torch.cuda.amp.autocast(on, torch.bfloat16)",
            'torch.amp.autocast("cuda", enabled=on, dtype=torch.bfloat16)',
        ),
        ("torch.cpu.amp.autocast(dtype=torch.bfloat16)", 'torch.amp.autocast("cpu", dtype=torch.bfloat16)'),
        ("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")'),
        ("torch.cuda.amp.GradScaler(1024.0, enabled=on)", 'torch.amp.GradScaler("cuda", 1024.0, enabled=on)'),
        ("torch.cuda.amp.custom_fwd(f)", None),
        ("torch.cuda.amp.autocast(*options)", None),
        (
            "torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)",
            'torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")',
        ),
    ],
)
def test_spelled_out(before: str, after: str | None) -> None:
    source = f"import torch\nx = {before}  # kept\n"
    assert lines("FO401", source) == [2]
    assert fixed("FO401", source) == (source if after is None else f"import torch\nx = {after}  # kept\n")


def test_the_import_and_its_uses_move_together() -> None:
    source = """
    import torch
    from torch.cuda.amp import autocast, GradScaler as Scaler  # AMP

    scaler: Scaler = Scaler( )

    def train(on):
        with autocast(on):
            pass
    """
    (hit,) = hits("FO401", source)
    assert hit.node.lineno == 2
    assert "`torch.cuda.amp.GradScaler` and `torch.cuda.amp.autocast`" in hit.message or (
        "`torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler`" in hit.message
    )
    assert fixed("FO401", source) == (
        "import torch\n"
        "from torch.amp import autocast, GradScaler as Scaler  # AMP\n\n"
        'scaler: Scaler = Scaler( "cuda")\n\n'
        "def train(on):\n"
        '    with autocast("cuda", enabled=on):\n'
        "        pass\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch.cuda import amp", "from torch import amp"),
        ("import torch.cuda.amp as amp", "import torch.amp as amp"),
        ("from torch.cuda.amp.grad_scaler import GradScaler", "from torch.amp import GradScaler"),
    ],
)
def test_other_imports(before: str, after: str) -> None:
    use = "GradScaler" if "grad_scaler" in before else "amp.GradScaler"
    assert fixed("FO401", f"{before}\ns = {use}()\n") == f'{after}\ns = {use}("cuda")\n'


def test_the_decorators_of_a_function() -> None:
    source = """
    from torch.cuda.amp import custom_bwd, custom_fwd

    @custom_fwd
    def forward(ctx, x):
        return x

    @custom_bwd
    def backward(ctx, g):
        return g
    """
    assert '@custom_fwd(device_type="cuda")\n' in fixed("FO401", source)


def test_a_use_that_cannot_be_moved_keeps_the_import() -> None:
    source = "from torch.cuda.amp import autocast\ncontext = functools.partial(autocast)\nwith autocast():\n    pass\n"
    (hit,) = hits("FO401", source)
    assert hit.fix is None


@pytest.mark.parametrize(
    "source",
    [
        'import torch\ntorch.amp.autocast("cuda")\n',
        'import torch  # .amp\ntorch.autocast("cuda")\n',
        "from torch.cuda.amp import GradScaler\ndef f(scaler: GradScaler): ...\n",
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n"
        "    from torch.cuda.amp import GradScaler\ns = GradScaler()\n",
        "import torch\nif hasattr(torch.amp, 'GradScaler'):\n    s = torch.amp.GradScaler()\n"
        "else:\n    s = torch.cuda.amp.GradScaler()\n",
        "from apex import amp\namp.initialize(model)\n",
        "import torch\nisinstance(s, torch.cuda.amp.GradScaler)\n",
    ],
)
def test_what_looks_like_it_but_is_fine(source: str) -> None:
    assert lines("FO401", source) == []


def test_an_older_pytorch_warns_of_nothing() -> None:
    source = "import torch\ntorch.cuda.amp.autocast()\n"
    assert lines("FO401", source, torch=(2, 3)) == []
    assert lines("FO401", source, torch=(2, 4)) == [2]


def test_the_fix_runs_and_does_the_same() -> None:
    source = """
    import torch
    from torch.cpu.amp import autocast, GradScaler
    from torch.cuda.amp import custom_fwd

    @custom_fwd
    def same(ctx, x):
        return x

    scaler = GradScaler(1024.0)
    with autocast(True, torch.bfloat16):
        result = torch.ones(2, 2) @ torch.ones(2, 2)
    state = (result.dtype, scaler.get_scale(), scaler.is_enabled())
    """
    states = []
    for text, spoken in ((source, "ignore"), (fixed("FO401", source), "error")):
        names: dict[str, object] = {}
        with warnings.catch_warnings():
            warnings.simplefilter(spoken)  # type: ignore[arg-type]
            exec(text if text is not source else __import__("textwrap").dedent(source), names)
        states.append(names["state"])
    assert states[0] == states[1]


def test_a_module_that_is_used_in_another_way_stays() -> None:
    source = "from torch.cuda import amp\nwith amp.autocast():\n    pass\n"
    assert "from torch import amp" in fixed("FO401", source)
    for other in ("def f(lib=amp): return lib.autocast()\n", "ctx = amp.common\n", "__all__ = ['amp']\n"):
        (hit,) = hits("FO401", source + other)
        assert hit.fix is None, other
