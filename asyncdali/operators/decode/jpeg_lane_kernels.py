"""Which JPEGs the decoding engines of a GPU take: a question to the header alone, so that the answer never changes."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, load_u8, store_i64
from ...compiled.memory import address_of
from ...compiled.step import compiled, inlined
from .jpeg_kernels import HEADER_FIELDS, IS_JPEG

SMALLEST_SIDE, LARGEST_SIDE = 64, 16000
_TAIL = 32  # files may be padded behind the end marker


@inlined
def _ends(data, size):
    """Whether the end marker is there: what is cut off is left to the decoder that says so."""
    found = False
    for k in range(2, _TAIL):
        found = found or (k <= size and load_u8(data + size - k) == 0xFF and load_u8(data + size - k + 1) == 0xD9)
    return found


@inlined
def _usual_colours(data, size):
    """Whether a file of three components is YCbCr in a usual sampling (4:4:4, 4:2:2, 4:2:0, 4:4:0)."""
    at, stop = data + 2, data + size
    while at + 4 <= stop:
        marker = np.int64(load_u8(at + 1))
        if load_u8(at) != 0xFF or marker == 0xFF:
            at += 1
            continue
        if marker == 0xDA:
            return False
        length = np.int64(load_u8(at + 2)) << 8 | np.int64(load_u8(at + 3))
        if marker == 0xEE and length >= 14 and load_u8(at + 4) == 0x41 and load_u8(at + 15) != 1:  # Adobe: not YCbCr
            return False
        if marker == 0xC0 or marker == 0xC1:
            first = np.int64(load_u8(at + 11))
            usual = first == 0x11 or first == 0x21 or first == 0x22 or first == 0x12
            return usual and load_u8(at + 10) != 0x52 and load_u8(at + 14) == 0x11 and load_u8(at + 17) == 0x11
        at += 2 + length
    return False


@compiled(1)
def find_eligible(table):
    """0 addresses, 1 sizes, 2 headers, 3 samples, 4 int64[samples] to be filled in with 0 or 1."""
    eligible = 0
    for i in range(load_i64(table + 24)):
        data, size = load_i64(load_i64(table) + 8 * i), load_i64(load_i64(table + 8) + 8 * i)
        header = load_i64(table + 16) + 8 * HEADER_FIELDS * i
        width, height = load_i64(header + 8), load_i64(header + 16)
        found = (
            load_i64(header) == IS_JPEG and load_i64(header + 24) == 3 and load_i64(header + 32) == 1 and load_i64(header + 56) == 1
        )
        found = found and (load_i64(header + 48) == 0xC0 or load_i64(header + 48) == 0xC1)
        found = found and SMALLEST_SIDE <= width <= LARGEST_SIDE and SMALLEST_SIDE <= height <= LARGEST_SIDE
        found = found and _ends(data, size) and _usual_colours(data, size)
        store_i64(load_i64(table + 32) + 8 * i, 1 if found else 0)
        eligible += 1 if found else 0
    return eligible


def eligible(addresses: np.ndarray, sizes: np.ndarray, headers: np.ndarray) -> np.ndarray:
    """bool[samples]: upright baseline colour JPEGs of one scan that are whole."""
    result = np.empty(len(sizes), np.int64)
    table = np.array([address_of(addresses), address_of(sizes), address_of(headers), len(sizes), address_of(result)], np.int64)
    find_eligible(address_of(table))
    return result != 0
