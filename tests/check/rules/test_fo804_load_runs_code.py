from __future__ import annotations

from pathlib import Path

import pytest
from checking import fixed, hits, lines

IMPORT = "import torch\n"
WEIGHTS = IMPORT + "state = torch.load(path)\nmodel.load_state_dict(state)\n"
DOWNLOAD = IMPORT + "path = hf_hub_download('a', 'b.pt')\nstate = torch.load(path, weights_only=False)\n"


def test_before_the_default_was_safe() -> None:
    (hit,) = hits("FO804", WEIGHTS, torch=(2, 1))
    assert hit.node.lineno == 2
    assert "with PyTorch 2.1, which the project admits" in hit.message


def test_a_download() -> None:
    (hit,) = hits("FO804", DOWNLOAD)
    assert hit.node.lineno == 3
    assert "`hf_hub_download` brings that from elsewhere" in hit.message


def test_the_fix() -> None:
    assert "torch.load(path, weights_only=True)" in fixed("FO804", WEIGHTS, torch=(2, 1))
    assert "torch.load(path, weights_only=True)" in fixed("FO804", DOWNLOAD)
    assert fixed("FO804", WEIGHTS, torch=(1, 8)) == WEIGHTS  # there was no such option


@pytest.mark.parametrize(
    ("source", "torch"),
    [
        (WEIGHTS, None),
        (WEIGHTS, (2, 6)),
        (WEIGHTS.replace("(path)", "(path, weights_only=True)"), (2, 1)),
        (IMPORT + "data = torch.load(path)\n", (2, 1)),  # may hold anything
        (IMPORT + "state = torch.load('mine.pt', weights_only=False)\n", None),
        (DOWNLOAD.replace("False", "True"), None),
        (WEIGHTS.replace("(path)", "(path, **options)"), (2, 1)),
    ],
)
def test_what_looks_like_it_but_is_fine(source: str, torch: tuple[int, int] | None) -> None:
    assert lines("FO804", source, torch=torch) == []


def test_what_it_does(tmp_path: Path) -> None:
    """The page's claim, and that the fix gives the same weights."""
    import pickle

    import torch

    class Code:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "was-here",))

    torch.save(Code(), tmp_path / "code.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "code.pt", weights_only=True)
    assert not (tmp_path / "was-here").exists()
    torch.load(tmp_path / "code.pt", weights_only=False)
    assert (tmp_path / "was-here").exists()

    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "weights.pt")
    before, after = (torch.load(tmp_path / "weights.pt", weights_only=flag) for flag in (False, True))
    assert all(torch.equal(before[key], after[key]) for key in before)
