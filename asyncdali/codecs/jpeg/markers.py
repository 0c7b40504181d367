"""The marker segments of a JPEG file (ITU-T T.81, annex B), read into a frame record and checked.

The reader stops at anything unusual: libjpeg-turbo then decodes the file, or refuses it.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import clear_bytes, larger, load_i64, load_u8, store_i64
from ...compiled.step import inlined
from .fields import (  # fmt: skip
    AC_CODES,
    AC_TABLES,
    COMPONENT_BYTES,
    COMPONENTS,
    DC_CODES,
    DC_TABLES,
    FIRST_COMPONENT,
    HEIGHT,
    LARGEST_H,
    LARGEST_V,
    MARKER,
    NAME,
    PROGRESSIVE,
    QUANTISATION,
    QUANTISATION_SLOT,
    QUANTISATIONS,
    RESTART,
    SAMPLING_H,
    SAMPLING_V,
    SCAN_DATA,
    SCAN_HEADER,
    SEEN_BYTES,
    WIDTH,
)
from .jpeg_tables import MOST_SIDE


@inlined
def big_endian(at):
    """Big-endian 16-bit number at address `at`."""
    return np.int64(load_u8(at)) << 8 | np.int64(load_u8(at + 1))


@inlined
def _quantisation(at, stop, frame):
    """Record the tables of a DQT segment at at..stop; False if they are broken."""
    while at < stop:
        wide, slot = np.int64(load_u8(at)) >> 4, np.int64(load_u8(at)) & 15
        end = at + 65 + 64 * wide
        if wide > 1 or slot > 3 or end > stop:
            return False
        store_i64(frame + QUANTISATIONS + 8 * slot, at + 1)
        at = end
    return True


@inlined
def quantisation_factor(table, k):
    """Factor `k` (zigzag order) of the quantisation table at address `table`.

    The byte before the table says whether factors have 16 bits.
    """
    return np.int64(load_u8(table + k)) if load_u8(table - 1) < 16 else big_endian(table + 2 * k)


@inlined
def read_huffman(at, stop, frame):
    """Record the tables of a DHT segment at at..stop; False if they are broken. huffman.py checks the codes."""
    while at < stop:
        if at + 17 > stop:
            return False
        kind, slot = np.int64(load_u8(at)) >> 4, np.int64(load_u8(at)) & 15
        symbols = np.int64(0)
        for k in range(1, 17):
            symbols += np.int64(load_u8(at + k))
        if kind > 1 or slot > 3 or symbols > 256 or at + 17 + symbols > stop:
            return False
        store_i64(frame + (AC_TABLES if kind == 1 else DC_TABLES) + 8 * slot, at + 1)
        at += 17 + symbols
    return True


@inlined
def _frame(at, length, frame):
    """Record a frame header of `length` bytes; False unless it has 8 bits, one or three components, and a usual sampling."""
    count = np.int64(load_u8(at + 5)) if length >= 6 else 0
    if (count != 1 and count != 3) or length != 6 + 3 * count or load_u8(at) != 8:
        return False
    store_i64(frame + HEIGHT, big_endian(at + 1))
    store_i64(frame + WIDTH, big_endian(at + 3))
    store_i64(frame + COMPONENTS, count)
    widest = tallest = np.int64(1)
    for k in range(count):
        spec, part = at + 6 + 3 * k, frame + FIRST_COMPONENT + COMPONENT_BYTES * k
        h, v = np.int64(load_u8(spec + 1)) >> 4, np.int64(load_u8(spec + 1)) & 15
        most = 4 if count == 1 else 2
        if h < 1 or h > most or v < 1 or v > most or load_u8(spec + 2) > 3:
            return False
        if count == 1:
            h = v = np.int64(1)  # A single component is stored block by block, whatever its sampling.
        if k > 0 and (h != 1 or v != 1):
            return False
        store_i64(part + NAME, np.int64(load_u8(spec)))
        store_i64(part + SAMPLING_H, h)
        store_i64(part + SAMPLING_V, v)
        store_i64(part + QUANTISATION_SLOT, np.int64(load_u8(spec + 2)))
        widest, tallest = larger(widest, h), larger(tallest, v)
    store_i64(frame + LARGEST_H, widest)
    store_i64(frame + LARGEST_V, tallest)
    return 0 < load_i64(frame + WIDTH) <= MOST_SIDE and 0 < load_i64(frame + HEIGHT) <= MOST_SIDE


@inlined
def _all_quantisations(frame):
    """Record the quantisation tables of all components; False if one is missing. Later definitions are not read."""
    for k in range(load_i64(frame + COMPONENTS)):
        part = frame + FIRST_COMPONENT + COMPONENT_BYTES * k
        table = load_i64(frame + QUANTISATIONS + 8 * load_i64(part + QUANTISATION_SLOT))
        if table == 0:
            return False
        store_i64(part + QUANTISATION, table)
    return load_i64(frame + COMPONENTS) > 0


@inlined
def _sequential_scan(at, length, frame):
    """Record the tables that the only scan of a sequential file uses. False unless the scan has all components in order."""
    count = load_i64(frame + COMPONENTS)
    if not _all_quantisations(frame) or length != 4 + 2 * count or np.int64(load_u8(at)) != count:
        return False
    for k in range(count):
        part, tables = frame + FIRST_COMPONENT + COMPONENT_BYTES * k, np.int64(load_u8(at + 2 + 2 * k))
        if np.int64(load_u8(at + 1 + 2 * k)) != load_i64(part + NAME) or tables >> 4 > 3 or tables & 15 > 3:
            return False
        dc, ac = load_i64(frame + DC_TABLES + 8 * (tables >> 4)), load_i64(frame + AC_TABLES + 8 * (tables & 15))
        if dc == 0 or ac == 0:
            return False
        store_i64(part + DC_CODES, dc)
        store_i64(part + AC_CODES, ac)
    at += 1 + 2 * count
    return load_u8(at) == 0 and load_u8(at + 1) == 63 and load_u8(at + 2) == 0


@inlined
def _names_rgb(frame):
    """Whether the components are named R, G and B. libjpeg-turbo recognises RGB files without further markers by these names."""
    return load_i64(frame + FIRST_COMPONENT + NAME) == 0x52


@inlined
def read_frame(data, size, frame):
    """Read a file's segments up to its first scan's data into the record `frame` (SEEN_BYTES). Returns whether our decoder supports it."""
    clear_bytes(frame, SEEN_BYTES)
    stop = data + size
    if size < 4 or big_endian(data) != 0xFFD8:
        return False
    jfif = adobe = False
    at = data + 2
    while at + 4 <= stop:
        marker = np.int64(load_u8(at + 1))
        if load_u8(at) != 0xFF:
            return False
        if marker == 0xFF:  # A fill byte.
            at += 1
            continue
        start, length = at + 4, big_endian(at + 2) - 2
        at = start + length
        if length < 0 or at > stop:
            return False
        if marker == 0xDA:
            store_i64(frame + SCAN_HEADER, start)
            store_i64(frame + SCAN_DATA, at)
            usual = jfif or not (adobe or _names_rgb(frame)) or load_i64(frame + COMPONENTS) == 1
            if load_i64(frame + MARKER) == PROGRESSIVE:
                return usual and _all_quantisations(frame)
            return usual and _sequential_scan(start, length, frame)
        if marker == 0xDB:
            if not _quantisation(start, at, frame):
                return False
        elif marker == 0xC4:
            if not read_huffman(start, at, frame):
                return False
        elif marker == 0xC0 or marker == 0xC1 or marker == PROGRESSIVE:
            if load_i64(frame + COMPONENTS) != 0 or not _frame(start, length, frame):
                return False
            store_i64(frame + MARKER, marker)
        elif marker == 0xDD:
            if length != 2:
                return False
            store_i64(frame + RESTART, big_endian(start))
        elif marker == 0xE0:
            jfif = jfif or (length >= 14 and big_endian(start) == 0x4A46 and big_endian(start + 2) == 0x4946 and load_u8(start + 4) == 0)
        elif marker == 0xEE:
            known = length >= 12 and big_endian(start) == 0x4164 and big_endian(start + 2) == 0x6F62 and load_u8(start + 4) == 0x65
            if known and load_u8(start + 11) != 1:  # Not YCbCr.
                adobe = True
        elif marker >> 4 != 0xE and marker != 0xFE:
            return False
    return False
