"""The packages that the rules are judged on: fetched from the Python package index by version, never committed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["packages", "tomllib", "unpacked"]

LIST = Path(__file__).with_name("corpora.toml")


def packages() -> list[str]:
    """`name==version` of each, in the order of the list."""
    table = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return [*table["named"], *table["further"]]


def unpacked(package: str, folder: Path) -> Path:
    """Where the files of `package` lie below `folder`; fetched once. Raises CalledProcessError where pip cannot."""
    target = folder / package
    if not target.exists():
        wheels = folder / "wheels" / package
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(wheels), package], check=True)
        (wheel,) = wheels.glob("*.whl")
        part = target.with_name(f"{target.name}.part")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
        part.rename(target)
    return target
