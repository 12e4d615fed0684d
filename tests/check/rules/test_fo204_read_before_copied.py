from __future__ import annotations

import pytest
from checking import hits, lines

HEAD = "import torch\nimport numpy as np\ndef f(model, batch, device):\n    out = model(batch.to(device))\n"


def said(body: str) -> list[int]:
    """The lines of `body`, from 1, that something is found on."""
    code = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    return [number - 4 for number in lines("FO204", code)]


@pytest.mark.parametrize(
    "body",
    [
        "a = out.to('cpu', non_blocking=True).numpy()",
        "a = out.detach().to('cpu', non_blocking=True)\nb = a.numpy()",
        "a = out.to(device='cpu', non_blocking=True)\nlog(a)\nprint(a)",
        "a = out.to(torch.device('cpu'), non_blocking=True)\nif a > 0:\n    pass",
        "a = out.to('cpu', non_blocking=True)\nreturn np.argmax(a)",
        "a = out.to('cpu', non_blocking=True)\nreturn a[0].item()",
        "a = out.to('cpu', non_blocking=True)\nb = a + 1",
        "a = {k: v.to('cpu', non_blocking=True) for k, v in out.items()}\nb = a['x'].numpy()",
        "a = [v.to('cpu', non_blocking=True) for v in out]\nb = [v.numpy() for v in a]",
        "a = torch.empty(3, pin_memory=True)\na.copy_(out, non_blocking=True)\nb = a.sum()",
    ],
)
def test_read_too_early(body: str) -> None:
    assert said(body) == [2 if "copy_" in body else 1]


def test_gathered_in_a_list() -> None:
    loop = "all = []\nfor x in batch:\n    all.append(model(x).to('cpu', non_blocking=True))\n"
    assert said(loop + "return torch.cat(all).numpy()") == [3]
    assert said(loop + "torch.cuda.synchronize()\nreturn torch.cat(all).numpy()") == []


@pytest.mark.parametrize(
    "body",
    [
        "a = out.to('cpu', non_blocking=True)\ntorch.cuda.synchronize()\nb = a.numpy()",
        "a = out.to('cpu', non_blocking=True)\nevent.record()\nevent.synchronize()\nb = a.numpy()",
        "a = out.to('cpu', non_blocking=True)\nself.wait_for_copies()\nb = a.numpy()",
        "a = out.to('cpu', non_blocking=True)\nn = model(x.cuda()).sum().item()\nb = a.numpy()",
        "a = out.to('cpu', non_blocking=True)\nreturn a",
        "a = out.to('cpu', non_blocking=True)\nreturn a.shape, a.dtype",
        "a = out.to('cpu', non_blocking=True)\nif a is None:\n    pass",
        "a = out.to('cpu', non_blocking=True)\na = a2\nb = a.numpy()",
        "a = out.to('cpu', non_blocking=False)\nb = a.numpy()",
        "a = out.to(device, non_blocking=True)\nb = a.sum()",
        "a = torch.ones(2).to('cpu', non_blocking=True)\nb = a.numpy()",
        "a = torch.empty(3)\na.copy_(out, non_blocking=True)\nb = a.sum()",
    ],
)
def test_what_looks_like_it_but_is_fine(body: str) -> None:
    assert said(body) == []


def test_the_message_names_the_read() -> None:
    code = HEAD + "    a = out.to('cpu', non_blocking=True)\n    print(a)\n"
    assert hits("FO204", code)[0].message.startswith("`print(a)` reads the result of this copy, and nothing has waited")
    assert "(read on line 6)" in hits("FO204", code)[0].message


def test_cpu_takes_no_such_argument() -> None:
    import torch

    with pytest.raises(TypeError):
        torch.ones(2).cpu(non_blocking=True)  # type: ignore[call-arg]
    assert "raises TypeError" in hits("FO204", "x = y.cuda().sum()\nz = x.cpu(non_blocking=True)\n")[0].message


def test_a_later_copy_that_waits_waits_for_this_one_too() -> None:
    source = """
    import torch
    def sizes(a, b):
        x = a.cuda().to("cpu", non_blocking=True)
        y = b.cuda().to("cpu", non_blocking={flag})
        return x.tolist(), y.tolist()
    """
    assert lines("FO204", source.replace("{flag}", "False")) == []
    assert lines("FO204", source.replace("{flag}", "True")) != []
