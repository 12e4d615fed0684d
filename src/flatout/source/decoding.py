"""Bytes to text as Python reads them, or one line that says why not."""

from __future__ import annotations

import codecs
import re
from tokenize import detect_encoding
from typing import NamedTuple

from flatout.errors import UnreadableFileError

_BYTE_LINE_END = re.compile(rb"\r\n|\r|\n")
_DECLARATION = re.compile(rb"[ \t\f]*#.*?coding[:=]")  # PEP 263, but for the name
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Decoded(NamedTuple):
    """`data` of a file = `mark` + `text` encoded, where the encoding is one that gives back the same bytes."""

    mark: bytes  # the UTF-8 byte order mark, or nothing
    text: str
    encoding: str

    def encoded(self, text: str) -> bytes:
        """A whole file with another text. Raises UnicodeEncodeError where the encoding has no such character."""
        return self.mark + text.encode(self.encoding)


def decode_python(path: str, data: bytes) -> Decoded:
    """Python source by PEP 263: UTF-8, or what the first two lines declare. Raises UnreadableFileError."""
    _refuse_binary(path, data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(mark) :]
    declared = _declared(path, body)
    encoding = declared or "utf-8"
    if mark and encoding != "utf-8":
        raise UnreadableFileError(
            f"{path}: begins with UTF-8's byte order mark but declares {encoding}. Remove the declaration."
        )
    try:
        return Decoded(mark, body.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        line = 1 + len(_BYTE_LINE_END.findall(body, 0, error.start))
        said = f"its first lines declare {declared}" if declared else "no encoding is declared"
        raise UnreadableFileError(
            f"{path}: byte 0x{body[error.start]:02x} in line {line} is not {encoding.upper()}, and {said}. "
            "Save the file as UTF-8, or declare its encoding in the first line (# -*- coding: latin-1 -*-)."
        ) from None
    except (UnicodeError, LookupError, ValueError) as error:  # codecs of bytes to bytes, such as hex, among them
        raise UnreadableFileError(f"{path}: cannot be read as {encoding} ({error}). Save the file as UTF-8.") from None


def decode_utf8(path: str, data: bytes, kind: str) -> Decoded:
    """A file of a `kind` that is UTF-8 by its standard. Raises UnreadableFileError."""
    _refuse_binary(path, data)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(mark) :]
    try:
        return Decoded(mark, body.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        line = 1 + len(_BYTE_LINE_END.findall(body, 0, error.start))
        raise UnreadableFileError(
            f"{path}: byte 0x{body[error.start]:02x} in line {line} is not UTF-8, as {kind} must be. "
            "Save the file as UTF-8."
        ) from None


def _refuse_binary(path: str, data: bytes) -> None:
    if data.startswith(_UTF16):
        raise UnreadableFileError(f"{path}: UTF-16, which Python does not read. Save the file as UTF-8.")
    position = data.find(b"\0")
    if position >= 0:
        line = 1 + len(_BYTE_LINE_END.findall(data, 0, position))
        raise UnreadableFileError(
            f"{path}: holds a NUL byte (line {line}), so it is not text. Leave it out, or save it again as UTF-8."
        )


def _declared(path: str, data: bytes) -> str | None:
    """The encoding that the first two lines declare."""
    lines: list[bytes] = []
    start = 0
    while len(lines) < 2 and start < len(data):
        match = _BYTE_LINE_END.search(data, start)
        end = match.end() if match else len(data)
        lines.append(data[start:end].rstrip(b"\r\n") + b"\n")
        start = end
    if not any(_DECLARATION.match(line) for line in lines):
        return None
    # A line beyond the declaration may be in any encoding; one before it is checked when all is decoded.
    ascii_lines = [line.decode("ascii", "replace").replace("\ufffd", "?").encode() for line in lines]
    try:
        name, _ = detect_encoding(iter(ascii_lines).__next__)
    except SyntaxError as error:
        raise UnreadableFileError(
            f"{path}: declares an encoding that Python does not know ({error.msg}). "
            "Correct the line `# -*- coding: ... -*-`, or save the file as UTF-8."
        ) from None
    return name
