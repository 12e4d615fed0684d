"""Reading installing commands out of text."""

from __future__ import annotations

import pytest

from flatout.check.commands import installs


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("pip install torch torchvision", ["torch", "torchvision"]),
        ("RUN pip3 install --no-cache-dir -i https://a.b torch && rm -r x", ["torch"]),
        ("pip install \\\n  torch==2.1 \\\n  numpy\nls\n", ["torch==2.1", "numpy"]),
        ("Run `pip install torch`, then train.", ["torch"]),
        ("...# install torch\n", ["torch"]),  # `!pip install torch` in a notebook
        ('      run: python -m pip install "torch>=2" -r other.txt', ["torch>=2"]),
        ("conda install pytorch -c pytorch -n env", ["pytorch"]),
    ],
)
def test_packages(text: str, packages: list[str]) -> None:
    (command,) = installs(text)
    assert [word.text for word in command.packages] == packages
    assert [text[word.span.start : word.span.end] for word in command.packages] == packages


@pytest.mark.parametrize("text", ["# pip install torch", "ls  # pip install torch", "pip freeze", "apt install gcc"])
def test_what_installs_nothing_here(text: str) -> None:
    assert list(installs(text)) == []
