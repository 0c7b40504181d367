"""CRC-32 of PNG chunks (ISO 3309; PNG specification, third edition, annex D), eight bytes per step."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_little_endian_64, load_u8, shift_right
from ...compiled.step import inlined


def _tables() -> np.ndarray:
    """uint32[8, 256]: the checksum of a byte with 0 to 7 zero bytes behind it."""
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = np.where(found & 1, (found >> 1) ^ np.uint32(0xEDB88320), found >> 1).astype(np.uint32)
    rows = [found]
    for _ in range(7):
        rows.append(found[rows[-1] & 0xFF] ^ (rows[-1] >> 8))
    return np.stack(rows)


_TABLES = _tables()


@inlined
def crc32(address, count):
    """The CRC-32 of `count` bytes at `address`."""
    table = _TABLES
    crc = np.int64(0xFFFFFFFF)
    whole = count & -8
    for k in range(address, address + whole, 8):
        word = load_little_endian_64(k) ^ crc
        low, high = word & 0xFFFFFFFF, shift_right(word, 32)
        first = table[7, low & 0xFF] ^ table[6, (low >> 8) & 0xFF] ^ table[5, (low >> 16) & 0xFF] ^ table[4, low >> 24]
        last = table[3, high & 0xFF] ^ table[2, (high >> 8) & 0xFF] ^ table[1, (high >> 16) & 0xFF] ^ table[0, high >> 24]
        crc = np.int64(first ^ last)
    for k in range(address + whole, address + count):
        crc = np.int64(table[0, (crc ^ load_u8(k)) & 0xFF]) ^ (crc >> 8)
    return crc ^ np.int64(0xFFFFFFFF)
