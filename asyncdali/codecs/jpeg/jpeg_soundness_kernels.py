"""Check that the tables and headers of a JPEG conform to the standard (ITU-T T.81).

nvJPEG's decoders do not check them. A quantisation factor out of range, or a Huffman table with too many codes, makes nvJPEG crash or
write into other pictures. So nvJPEG only gets files that pass; the CPU's decoder names the errors of the other files.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_u8
from ...compiled.step import inlined
from .markers import big_endian

_DC, _AC = 0, 1
_MOST_DC, _MOST_AC = 12, 162  # Largest numbers of symbols in pictures of 8 bits.
_LARGEST_DC = 11  # Most bits of a difference of DC values.


@inlined
def _quantisation(at, stop, seen):
    """Check the tables in the contents of a DQT segment. Returns `seen` with their bits set, or -1 if a table is invalid."""
    while at < stop:
        number = np.int64(load_u8(at))  # The upper half is the precision, which is 0 for 8 bits.
        if number > 3 or at + 65 > stop:
            return -1
        for k in range(1, 65):
            if load_u8(at + k) == 0:
                return -1
        seen |= 1 << number
        at += 65
    return seen


@inlined
def _symbol_fits(kind, symbol):
    """Whether a symbol is valid: bits of a difference; zeros before a value of 1 to 10 bits; end of block; 16 zeros."""
    if kind == _DC:
        return symbol <= _LARGEST_DC
    bits = symbol & 15
    return bits <= 10 if bits != 0 else symbol == 0x00 or symbol == 0xF0


@inlined
def _huffman(at, stop, seen):
    """Check the tables in the contents of a DHT segment. Returns `seen` as above: bits 0 and 1 are DC tables, bits 2 and 3 AC tables."""
    while at < stop:
        if at + 17 > stop:
            return -1
        kind, number = np.int64(load_u8(at)) >> 4, np.int64(load_u8(at)) & 15
        if kind > _AC or number > 1:
            return -1
        symbols, left = np.int64(0), np.int64(1)
        for k in range(1, 17):
            count = np.int64(load_u8(at + k))
            symbols += count
            left = 2 * left - count  # Number of codes of this length that are still unused.
            if left < 1:  # A code of all ones is not allowed.
                return -1
        at += 17
        if symbols < 1 or symbols > (_MOST_AC if kind == _AC else _MOST_DC) or at + symbols > stop:
            return -1
        for k in range(symbols):
            if not _symbol_fits(kind, np.int64(load_u8(at + k))):
                return -1
        seen |= 1 << (2 * kind + number)
        at += symbols
    return seen


@inlined
def _usual_frame(at, length):
    """Whether a frame header describes a YCbCr picture in a usual sampling (4:4:4, 4:2:2, 4:2:0, 4:4:0)."""
    if length != 17 or load_u8(at) != 8 or load_u8(at + 5) != 3 or load_u8(at + 6) == 0x52:  # "R" of RGB
        return False
    first = np.int64(load_u8(at + 7))
    return (first == 0x11 or first == 0x21 or first == 0x22 or first == 0x12) and load_u8(at + 10) == 0x11 and load_u8(at + 13) == 0x11


@inlined
def _tables_there(frame, scan, length, quantisation, huffman):
    """Whether a scan header names all components of the frame, and only tables that were defined."""
    if frame == 0 or length != 12 or load_u8(scan) != 3:
        return False
    for k in range(3):
        table, tables = np.int64(load_u8(frame + 8 + 3 * k)), np.int64(load_u8(scan + 2 + 2 * k))
        if load_u8(scan + 1 + 2 * k) != load_u8(frame + 6 + 3 * k) or table > 3 or quantisation >> table & 1 == 0:
            return False
        if tables >> 4 > 1 or tables & 15 > 1 or huffman >> (tables >> 4) & 1 == 0 or huffman >> (2 + (tables & 15)) & 1 == 0:
            return False
    return load_u8(scan + 7) == 0 and load_u8(scan + 8) == 63 and load_u8(scan + 9) == 0


@inlined
def is_sound(data, size):
    """Whether the `size` bytes at `data` begin like a valid baseline YCbCr JPEG of one scan, up to its entropy-coded data."""
    at, stop = data + 2, data + size
    frame, quantisation, huffman = np.int64(0), np.int64(0), np.int64(0)
    while at + 4 <= stop:
        if load_u8(at) != 0xFF:
            return False
        marker = np.int64(load_u8(at + 1))
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        start, length = at + 4, big_endian(at + 2)
        at += 2 + length
        if length < 2 or at > stop:
            return False
        if marker == 0xDA:
            return _tables_there(frame, start, length, quantisation, huffman)
        if marker == 0xDB:
            quantisation = _quantisation(start, at, quantisation)
        elif marker == 0xC4:
            huffman = _huffman(start, at, huffman)
        elif marker == 0xC0 or marker == 0xC1:
            if frame != 0 or not _usual_frame(start, length):
                return False
            frame = start
        elif marker == 0xEE:
            if length >= 14 and load_u8(start) == 0x41 and load_u8(start + 11) != 1:  # Adobe: not YCbCr
                return False
        elif marker != 0xFE and marker >> 4 != 0xE and not (marker == 0xDD and length == 4):
            return False
        if quantisation < 0 or huffman < 0:
            return False
    return False
