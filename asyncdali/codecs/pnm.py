"""Netpbm pictures: PBM, PGM and PPM, in binary and as text (P1 to P6), without a library. Values are scaled to the full range."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

_BLANKS = b" \t\n\v\f\r"
_MOST_DIGITS = 9


class PnmFile(NamedTuple):
    """The header of a picture. `start`: offset of the pixels; `needed`: fewest bytes of the file."""

    kind: int
    width: int
    height: int
    largest: int
    start: int
    needed: int

    @property
    def channels(self) -> int:
        return 3 if self.kind in (3, 6) else 1


def read_file(data: bytes) -> PnmFile:
    """Read a header. A comment runs from # to the end of its line; one blank or comment ends the header. ValueError if it is broken."""
    kind = data[1] - ord("0")
    numbers: list[int] = []
    at = 2
    while len(numbers) < (2 if kind in (1, 4) else 3):
        number, at = _number(data, at)
        numbers.append(number)
    width, height, largest = numbers[0], numbers[1], 1 if kind in (1, 4) else numbers[2]
    if not 1 <= largest <= 65535:
        raise ValueError(f"broken PNM: the largest value is {largest}; allowed are 1 to 65535")
    values = width * height * (3 if kind in (3, 6) else 1)
    size = height * -(-width // 8) if kind == 4 else values * 2 if kind in (5, 6) and largest > 255 else values
    if kind <= 3:
        return PnmFile(kind, width, height, largest, at, at + size)
    if data[at : at + 1] == b"#":
        end = data.find(b"\n", at)
        at = len(data) if end < 0 else end
    elif data[at : at + 2] == b"\r\n" and len(data) >= at + 2 + size:  # Windows' end of line, unless its second half is a pixel.
        at += 1
    return PnmFile(kind, width, height, largest, at + 1, at + 1 + size)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """(the number at or after `at`, the offset behind it)."""
    while True:
        letter = data[at : at + 1]
        if letter == b"#":
            ends = [end for end in (data.find(b"\n", at), data.find(b"\r", at)) if end >= 0]
            at = min(ends, default=len(data))
        elif letter == b"" or letter not in _BLANKS:
            break
        else:
            at += 1
    end = at
    while data[end : end + 1].isdigit() and end - at < 10:
        end += 1
    if end == at:
        raise ValueError("broken PNM: a number is missing in the header")
    return int(data[at:end]), end


def decode(data: bytes, file: PnmFile) -> np.ndarray:
    """The pixels, uint8 or uint16 [height, width, 1 or 3]. ValueError if they are broken."""
    count = file.width * file.height * file.channels
    if file.kind == 4:
        rows = np.frombuffer(data, np.uint8, file.height * -(-file.width // 8), file.start).reshape(file.height, -1)
        values = 1 - np.unpackbits(rows, axis=1, count=file.width)  # 1 is black
    elif file.kind in (5, 6):
        wide = file.largest > 255
        values = np.frombuffer(data, ">u2" if wide else np.uint8, count, file.start)
    elif file.kind == 1:
        values = 1 - _bits(data[file.start :], count)
    else:
        values = _numbers(data[file.start :], count)
        if values.max(initial=0) > file.largest:
            raise ValueError(f"broken PNM: a value is {values.max()}, and the largest is {file.largest}")
    return full_range(values, file.largest).reshape(file.height, file.width, file.channels)


def full_range(values: np.ndarray, largest: int) -> np.ndarray:
    """Unsigned integers up to `largest`, scaled to the full range of uint8, or of uint16 if they need it."""
    top, kind = (255, np.uint8) if largest <= 255 else (65535, np.uint16)
    if largest == top:
        return values.astype(kind, copy=False)
    steps = np.minimum(np.arange(top + 1), largest).astype(np.int64)  # Binary files may hold larger values.
    table: np.ndarray = ((steps * top + largest // 2) // largest).astype(kind)
    scaled: np.ndarray = table[values]
    return scaled


def _without_comments(text: bytes) -> np.ndarray:
    return np.frombuffer(re.sub(rb"#[^\n\r]*", b" ", text) if b"#" in text else text, np.uint8)


def _bits(text: bytes, count: int) -> np.ndarray:
    """The first `count` digits 0 and 1, which need no blanks between them."""
    letters = _without_comments(text)
    found = np.flatnonzero((letters == ord("0")) | (letters == ord("1")))[:count]
    if len(found) < count:
        raise ValueError(f"broken PNM: truncated: {len(found)} of {count} values")
    others = letters[: int(found[-1])] if count else letters[:0]
    _refuse_others(others[(others != ord("0")) & (others != ord("1"))])
    return letters[found] - np.uint8(ord("0"))


def _numbers(text: bytes, count: int) -> np.ndarray:
    """The first `count` numbers, int64."""
    letters = _without_comments(text)
    digit = (letters >= ord("0")) & (letters <= ord("9"))
    edges = np.diff(digit.astype(np.int8), prepend=np.int8(0), append=np.int8(0))
    starts, ends = np.flatnonzero(edges == 1)[:count], np.flatnonzero(edges == -1)[:count]
    if len(starts) < count:
        raise ValueError(f"broken PNM: truncated: {len(starts)} of {count} values")
    used = letters[: int(ends[-1])]
    _refuse_others(used[~digit[: len(used)]])
    lengths = ends - starts
    if lengths.max() > _MOST_DIGITS:
        raise ValueError(f"broken PNM: a number of {lengths.max()} digits; at most {_MOST_DIGITS} are allowed")
    values = np.zeros(count, np.int64)
    for k in range(int(lengths.max())):
        there = lengths > k
        values[there] = values[there] * 10 + (letters[starts[there] + k] - ord("0"))
    return values


def _refuse_others(letters: np.ndarray) -> None:
    wrong = letters[~np.isin(letters, np.frombuffer(_BLANKS, np.uint8))]
    if len(wrong):
        raise ValueError(f"broken PNM: {bytes(wrong[:1])!r} between the numbers")
