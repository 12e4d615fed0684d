"""The findings of a check in the formats that people and other tools read.

    render(result, "concise", options) -> str      one of FORMATS

Each format is a module with `render(result, options)`, loaded when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from flatout.check.result import CheckResult

FORMATS = ("full", "concise", "json", "github", "gitlab", "junit", "sarif")


class Options(NamedTuple):
    """How to render. `unsafe`: unsafe fixes count as offered; `colour`: terminal colours may be used."""

    unsafe: bool = False
    colour: bool = False


def render(result: CheckResult, format_name: str, options: Options) -> str:
    """`result` in the format of that name, which is one of FORMATS; with a final line end where there is anything."""
    text: str = importlib.import_module(f"flatout.report.check.{format_name}").render(result, options)
    return text
