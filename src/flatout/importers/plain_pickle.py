"""Reads pickles of plain data without the ability to run anything.

Python's own unpickler calls what the file names. This one knows only the instructions that build dicts, lists, tuples,
strings, numbers, booleans and None; anything else in the file is an error. Memory is bounded by the size of the input.
"""

from __future__ import annotations

import struct
from typing import Any

_BYTES_PER_CONTAINER = 8
"""An honest file has far more bytes than containers (about 100 to 1 in memory snapshots); more than this is hostile."""


class PlainPickleError(ValueError):
    """The bytes are not a pickle of plain data. The message says what is wrong and at which byte."""


def load_plain(data: bytes) -> Any:
    """The value in a pickle (binary protocols 1 to 5). Raises PlainPickleError."""
    try:
        return _load(data)
    except (IndexError, struct.error):
        raise PlainPickleError("the pickle is damaged or cut off") from None
    except UnicodeDecodeError as error:
        raise PlainPickleError(f"a string in the pickle is not UTF-8: {error.reason}") from None
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, PlainPickleError):
            raise
        raise PlainPickleError("the pickle's instructions contradict each other") from None


def _load(data: bytes) -> Any:  # one loop of plain comparisons, most frequent first: it runs a million times for 4 MB
    stack: list[Any] = []
    marks: list[int] = []
    memo: list[Any] = []
    push, remember = stack.append, memo.append
    containers_left = 1000 + len(data) // _BYTES_PER_CONTAINER
    unpack_u4 = struct.Struct("<I").unpack_from
    unpack_i4 = struct.Struct("<i").unpack_from
    at = 0
    while True:
        code = data[at]
        at += 1
        if code == 0x6A:  # LONG_BINGET
            push(memo[unpack_u4(data, at)[0]])
            at += 4
        elif code == 0x68:  # BINGET
            push(memo[data[at]])
            at += 1
        elif code == 0x94:  # MEMOIZE
            remember(stack[-1])
        elif code == 0x8A:  # LONG1
            length = data[at]
            at += 1
            push(int.from_bytes(_slice(data, at, length), "little", signed=True))
            at += length
        elif code == 0x28:  # MARK
            marks.append(len(stack))
        elif code == 0x4B:  # BININT1
            push(data[at])
            at += 1
        elif code == 0x7D or code == 0x5D:  # EMPTY_DICT, EMPTY_LIST
            containers_left -= 1
            if containers_left < 0:
                raise PlainPickleError(f"the pickle holds more containers than its {len(data)} bytes can honestly need")
            push({} if code == 0x7D else [])
        elif code == 0x75:  # SETITEMS
            start = marks.pop()
            stack[start - 1].update(zip(stack[start::2], stack[start + 1 :: 2], strict=True))
            del stack[start:]
        elif code == 0x8C:  # SHORT_BINUNICODE
            length = data[at]
            at += 1
            push(_slice(data, at, length).decode("utf-8", "surrogatepass"))
            at += length
        elif code == 0x4A:  # BININT
            push(unpack_i4(data, at)[0])
            at += 4
        elif code == 0x65:  # APPENDS
            start = marks.pop()
            stack[start - 1].extend(stack[start:])
            del stack[start:]
        elif code == 0x4D:  # BININT2
            push(data[at] | data[at + 1] << 8)
            at += 2
        elif code == 0x61:  # APPEND
            value = stack.pop()
            stack[-1].append(value)
        elif code == 0x73:  # SETITEM
            value, key = stack.pop(), stack.pop()
            stack[-1].update(((key, value),))
        elif code in (0x4E, 0x88, 0x89):  # NONE, NEWTRUE, NEWFALSE
            push(None if code == 0x4E else code == 0x88)
        elif code in (0x85, 0x86, 0x87, 0x74, 0x29):  # TUPLE1, TUPLE2, TUPLE3, TUPLE, EMPTY_TUPLE
            start = marks.pop() if code == 0x74 else len(stack) - (0 if code == 0x29 else code - 0x84)
            if start < 0:
                raise IndexError
            containers_left -= 1
            if containers_left < 0:
                raise PlainPickleError(f"the pickle holds more containers than its {len(data)} bytes can honestly need")
            stack[start:] = [tuple(stack[start:])]
        elif code in (0x58, 0x8D):  # BINUNICODE, BINUNICODE8
            width = 4 if code == 0x58 else 8
            length = int.from_bytes(_slice(data, at, width), "little")
            at += width
            push(_slice(data, at, length).decode("utf-8", "surrogatepass"))
            at += length
        elif code == 0x47:  # BINFLOAT
            push(struct.unpack_from(">d", data, at)[0])
            at += 8
        elif code == 0x8B:  # LONG4
            length = unpack_u4(data, at)[0]
            at += 4
            push(int.from_bytes(_slice(data, at, length), "little", signed=True))
            at += length
        elif code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            index = data[at] if code == 0x71 else unpack_u4(data, at)[0]
            at += 1 if code == 0x71 else 4
            if index > len(memo):
                raise PlainPickleError(f"memo entry {index} comes before entry {len(memo)}, at byte {at}")
            memo[index : index + 1] = [stack[-1]]
        elif code == 0x80:  # PROTO
            if data[at] > 5:
                raise PlainPickleError(f"pickle protocol {data[at]} is not known (5 is the newest)")
            at += 1
        elif code == 0x95:  # FRAME
            at += 8
        elif code == 0x2E:  # STOP
            return stack[-1]
        else:
            raise PlainPickleError(
                f"instruction 0x{code:02x} at byte {at - 1} does not build plain data; such a file could run code"
            )


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise IndexError
    return data[at : at + length]
