"""The edits that fixes are made of. Comments, spacing and line ends outside of them stay as they are."""

from __future__ import annotations

import ast
import re

from flatout.check.module import Module
from flatout.source import Edit

_SPACE = " \t\f"


def replace(module: Module, node: ast.expr | ast.stmt, content: str) -> Edit:
    """Put `content` in place of `node`."""
    start, end = module.text.span(node)
    return Edit(start, end, content)


def insert_after(module: Module, node: ast.expr | ast.stmt, content: str) -> Edit:
    """Put `content` right behind `node`."""
    end = module.text.span(node).end
    return Edit(end, end, content)


def add_argument(module: Module, call: ast.Call, content: str) -> Edit:
    """Give `call` one more argument, behind all others: `f(a)` becomes `f(a, content)`.

    Raises ValueError where more would have to be touched: a bare generator, a comment between the parentheses.
    """
    text = module.text.text
    close = module.text.span(call).end - 1
    ends = [module.text.span(item).end for item in call.args] + [module.text.span(item).end for item in call.keywords]
    if not ends:
        open_ = module.text.span(call.func).end
        if text[open_:close].partition("(")[2].strip():
            raise ValueError("a comment stands between the parentheses")
        return Edit(close, close, content)
    last = max(ends)
    if last > close:  # the parentheses are those of a generator, which can be the only argument
        raise ValueError("a bare generator can be the only argument")
    # Behind the last argument there may be parentheses of its own, a comma, comments.
    rest = _code(text[last:close])
    own = rest.rfind(")") + 1
    at = last + own
    comma = rest.find(",", own)
    if comma >= 0:
        at = last + comma + 1
        return Edit(at, at, f" {content},")
    return Edit(at, at, f", {content}")


def remove_argument(module: Module, call: ast.Call, item: ast.expr | ast.keyword) -> Edit:
    """Take an argument and its comma away."""
    text = module.text.text
    start, end = module.text.span(item)
    limit = module.text.span(call).end - 1
    rest = _code(text[end:limit])
    comma = rest.find(",")
    if comma >= 0:
        end += comma + 1
        while end < limit and text[end] in _SPACE:
            end += 1
        return Edit(start, end, "")
    # The last one: the comma before it goes, with the space between.
    before = text[:start].rstrip()
    if before.endswith(","):
        return Edit(len(before) - 1, end, "")
    return Edit(start, end, "")


def _code(text: str) -> str:
    """`text` with its comments blanked, at the same offsets. It must hold no strings."""
    return re.sub(r"#[^\r\n]*", lambda match: " " * len(match.group()), text)
