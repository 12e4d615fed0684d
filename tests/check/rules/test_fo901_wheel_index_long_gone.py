from __future__ import annotations

from typing import NamedTuple

import pytest
from checking import rule

from flatout.check.rule import Hit, TextFile
from flatout.check.wheels import INDEXES
from flatout.source import SourceText, Span

PAGES = "https://download.pytorch.org/whl/"


class Found(NamedTuple):
    line: int
    marked: str
    message: str


def found(text: str, path: str = "README.md", torch: tuple[int, int] | None = None) -> list[Found]:
    source = SourceText(text)
    assert any(word in text for word in rule("FO901").needs)
    hits: list[Hit] = list(rule("FO901").find(TextFile(source, path, torch)))  # type: ignore[arg-type]
    result = []
    for hit in hits:
        assert isinstance(hit.node, Span)
        start, end = hit.node
        result.append(Found(source.position(start)[0], text[start:end], hit.message))
    return result


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"pip install torch torchvision --extra-index-url {PAGES}cu113", "takes a newer one from PyPI"),
        (f"pip install torch torchvision --index-url {PAGES}cu117", "that is what gets installed"),
        (
            f"pip3 install 'torch>=2.6' --index-url {PAGES}cu121",
            "ends at PyTorch 2.5, and 2.6 is asked for: pip finds none",
        ),
        (f"pip install torch==2.7.0 --extra-index-url {PAGES}cu124", "pip takes PyPI's build"),
        (f"pip install torch==1.9.0 --index-url {PAGES}cu113", "begins with PyTorch 1.10"),
        (f"pip install torch==2.1.0+cu118 --index-url {PAGES}cu121", "has no builds for `cu118`"),
        (f"pip install torch -f {PAGES}cu111/torch_stable.html", "takes a newer one from PyPI"),
        (f"uv pip install torch --extra-index-url {PAGES}cu113", "that is what gets installed"),
    ],
)
def test_pages(command: str, said: str) -> None:
    (hit,) = found(f"Install:\n\n```bash\n{command}\n```\n")
    assert (hit.line, said in hit.message) == (4, True), hit.message
    assert hit.marked.startswith(PAGES)


@pytest.mark.parametrize(
    "text",
    [
        f"pip install torch --index-url {PAGES}cu126\n",
        f"pip install torch --index-url {PAGES}cu130\n",
        f"pip install torch --index-url {PAGES}cpu\n",
        f"pip install torch --index-url {PAGES}cu128\n",  # not new, not long gone
        f"pip install torch==1.12.1+cu113 --extra-index-url {PAGES}cu113\n",  # meant so
        f"pip install torch==2.5.1 --index-url {PAGES}cu121\n",
        f"pip install 'torch<2.1' --index-url {PAGES}cu117\n",
        f"pip install -r requirements.txt --extra-index-url {PAGES}cu113\n",  # which torch is not known here
        f"pip install {PAGES}cu113/torch-1.12.1%2Bcu113-cp310-cp310-linux_x86_64.whl\n",
        f"# pip install torch --index-url {PAGES}cu113\n",
    ],
)
def test_pages_that_are_fine(text: str) -> None:
    assert found(text, "install.yml") == []


def test_a_requirements_file() -> None:
    text = f"--extra-index-url {PAGES}cu116\ntorch\nnumpy\n"
    assert [hit.line for hit in found(text, "requirements.txt")] == [1]
    assert found(text.replace("torch\n", "torch==1.13.1\n"), "requirements.txt") == []


def test_what_the_project_asks_for() -> None:
    text = f"pip install -r requirements.txt --index-url {PAGES}cu113\n"
    assert len(found(text, "Dockerfile", torch=(2, 4))) == 1
    assert found(text, "Dockerfile", torch=(1, 12)) == []


def test_the_wrong_name() -> None:
    (hit,) = found("pip install numpy pytorch torchvision\n")
    assert (hit.marked, hit.line) == ("pytorch", 1)
    assert [item.marked for item in found("numpy\npytorch>=1.8\n", "requirements.txt")] == ["pytorch"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("pip install pytorch-lightning\n", "README.md"),
        ("pip install lion-pytorch segmentation_models_pytorch\n", "README.md"),
        ("Do not `pip install pytorch`.\n", "README.md"),
        ("conda install pytorch -c conda-forge\n", "README.md"),
        ("pytorch=1.12.1=py3.9_cuda11.3\n", "requirements.txt"),
        ("pytorch\ncudatoolkit=11.3\n", "requirements.txt"),
        ("pytorch_lightning\n", "requirements.txt"),
    ],
)
def test_names_that_are_fine(text: str, path: str) -> None:
    assert found(text, path) == []


def test_conda() -> None:
    (hit,) = found("conda install pytorch torchvision cudatoolkit=11.3 -c pytorch\n")
    assert "`cudatoolkit` up to PyTorch 1.12" in hit.message
    (hit,) = found("conda install pytorch torchvision pytorch-cuda=11.8 -c pytorch -c nvidia\n")
    assert "ends at PyTorch 2.5" in hit.message
    assert found("conda install pytorch==1.12.1 cudatoolkit=11.3 -c pytorch\n") == []
    assert found("conda install pytorch cudatoolkit=11.3 -c pytorch -c conda-forge\n") == []


def test_the_table() -> None:
    for name, index in INDEXES.items():
        assert index.last is None or index.first <= index.last, name
