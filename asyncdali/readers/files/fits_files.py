"""FITS files: headers of 80-character cards, big-endian arrays, in blocks of 2880 bytes (FITS standard 4.0)."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ..containers.compressed import named_compression
from ..remote.remote import Opener, open_file

_BLOCK, _CARD = 2880, 80
_MOST_BLOCKS = 4096
_TYPES = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
_SHIFTED = {(8, -(2**7)): "i1", (16, 2**15): "u2", (32, 2**31): "u4", (64, 2**63): "u8"}
"""(bits, zero point) by which the standard stores integers of the other signedness."""
_WHOLE = re.compile(r"\s*([+-]?[0-9]{1,19})(?![0-9.EDed])")
_NUMBER = re.compile(r"\s*([+-]?[0-9.]+(?:[EDed][+-]?[0-9]+)?)")


@dataclass
class Unit:
    """One header and data unit: the header's cards as text, and the offset and size of its data."""

    cards: dict[str, str]
    offset: int
    size: int

    def number(self, name: str, default: float | None = None) -> float:
        """A number of the header. ValueError if it is missing (without a default) or no number."""
        if name not in self.cards:
            if default is None:
                raise ValueError(f"the header has no {name}")
            return default
        match = _NUMBER.match(self.cards[name])
        try:
            value = float(match[1].upper().replace("D", "E")) if match is not None else math.nan
        except ValueError:  # several points
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{name} is not a finite number, but {self.cards[name].strip()[:40]}")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """An integer of the header, also one that a writer gave a point or an exponent."""
        match = _WHOLE.match(self.cards.get(name, ""))
        if match is not None:
            return int(match[1])
        value = self.number(name, default)
        if value != int(value) or abs(value) > 2**53:
            raise ValueError(f"{name} is not an integer")
        return int(value)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in numpy's order: the first axis of the file is the last."""
        count = self.whole("NAXIS")
        if not 0 <= count <= 32:
            raise ValueError(f"NAXIS is {count}")
        return tuple(self.whole(f"NAXIS{k}") for k in range(count, 0, -1))


def _header(file: BinaryIO, start: int, end: int) -> tuple[dict[str, str], int]:
    """Cards by keyword (the first of each), and the offset of the header's end."""
    cards: dict[str, str] = {}
    for number in range(_MOST_BLOCKS):
        at = start + number * _BLOCK
        if at + _BLOCK > end:
            raise ValueError("the file ends within a header")
        file.seek(at)
        block = file.read(_BLOCK).decode("latin-1")
        for k in range(0, _BLOCK, _CARD):
            card = block[k : k + _CARD]
            keyword = card[:8].rstrip()
            if keyword == "END":
                return cards, at + _BLOCK
            if card[8:10] == "= ":
                cards.setdefault(keyword, card[10:])
    raise ValueError("a header has no end")


def _unit(file: BinaryIO, start: int, end: int) -> Unit:
    cards, offset = _header(file, start, end)
    unit = Unit(cards, offset, 0)
    bits = unit.whole("BITPIX")
    if bits not in _TYPES:
        raise ValueError(f"BITPIX is {bits}")
    if unit.whole("NAXIS") > 0:
        groups, extra = unit.whole("GCOUNT", 1), unit.whole("PCOUNT", 0)
        if groups < 0 or extra < 0 or min(unit.shape) < 0:
            raise ValueError("an extent is negative")
        volume = 1
        for extent in unit.shape:
            volume *= extent
        unit.size = abs(bits) // 8 * groups * (extra + volume)
    if unit.size > end - offset:
        raise ValueError(f"the file ends within the data: {unit.size} bytes were declared")
    return unit


def read_units(path: str, wanted: list[int], open_file: Opener = open_file) -> list[np.ndarray]:
    """The images of these units (from 1); RuntimeError that names file and unit."""
    current = 1
    try:
        with open_file(path) as file:
            end = file.seek(0, os.SEEK_END)
            found: dict[int, np.ndarray] = {}
            at = 0
            for current in range(1, max(wanted) + 1):
                if at >= end:
                    raise ValueError(f"the file has only {current - 1} units")
                unit = _unit(file, at, end)
                if current == 1 and "SIMPLE" not in unit.cards:
                    raise ValueError("the file does not begin with a FITS header")
                if current in wanted:
                    found[current] = _image(file, unit)
                at = unit.offset + -(-unit.size // _BLOCK) * _BLOCK
            return [found[index] for index in wanted]
    except OSError as error:
        raise RuntimeError(f"Failed to open a file: {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise RuntimeError(f"{path}, unit {current}: {error}{named_compression(path) if current == 1 else ''}") from error


def _image(file: BinaryIO, unit: Unit) -> np.ndarray:
    kind = unit.cards.get("XTENSION", "'IMAGE").strip().lstrip("'")
    if not kind.startswith("IMAGE"):
        raise ValueError(f"the unit is not an image, but {kind.split(chr(39))[0].strip()}; tables and compressed images are not supported")
    if unit.whole("NAXIS") == 0:
        raise ValueError("the unit has no data")
    groups, extra = unit.whole("GCOUNT", 1), unit.whole("PCOUNT", 0)
    if groups != 1 or extra != 0:
        raise ValueError(f"the unit has groups or parameters (GCOUNT is {groups}, PCOUNT is {extra}), which are not supported")
    bits, count = unit.whole("BITPIX"), unit.size
    file.seek(unit.offset)
    data = file.read(count)
    if len(data) < count:
        raise ValueError("the file ends within the data")
    stored = np.frombuffer(data, _TYPES[bits]).reshape(unit.shape)
    scale, zero = unit.number("BSCALE", 1.0), unit.number("BZERO", 0.0)
    if scale == 1 and zero == 0:
        return stored.astype(stored.dtype.newbyteorder("="))
    shifted = _SHIFTED.get((bits, int(zero))) if scale == 1 and zero == int(zero) else None
    if shifted is not None:
        flipped = stored.astype(stored.dtype.newbyteorder("=")).view(f"u{abs(bits) // 8}") ^ np.array(1 << (bits - 1), f"u{bits // 8}")
        result: np.ndarray = flipped.view(shifted)
        return result
    scaled: np.ndarray = (stored * scale + zero).astype(np.float32 if abs(bits) in (8, 16) or bits == -32 else np.float64)
    if bits > 0 and "BLANK" in unit.cards:  # the value of pixels that are not defined
        scaled[stored == unit.whole("BLANK")] = np.nan
    return scaled
