"""Records of the decoder: byte offsets of their int64 fields, declared once."""

from __future__ import annotations


def offsets(count: int, start: int = 0) -> range:
    """Byte offsets of `count` int64 fields from byte `start` on."""
    return range(start, start + 8 * count, 8)


# A frame: what a file says before its first scan's data (markers.py).
WIDTH, HEIGHT, COMPONENTS, LARGEST_H, LARGEST_V, RESTART, SCAN_HEADER, SCAN_DATA, MARKER = offsets(9)
PROGRESSIVE = 0xC2
"""MARKER of progressive files."""
FIRST_COMPONENT = 128
"""Where the record of the first of up to three components begins."""
COMPONENT_BYTES = 128
# A component, from its own begin.
SAMPLING_H, SAMPLING_V, QUANTISATION, DC_CODES, AC_CODES, NAME, QUANTISATION_SLOT = offsets(7)
# In progressive files: all coefficients, groups per block row; a mask of those that are not 0 per block; bits of each that have come.
ALL_COEFFICIENTS, ROW_GROUPS, MASKS, PRECISIONS = offsets(4, 56)
FRAME_BYTES = FIRST_COMPONENT + 3 * COMPONENT_BYTES

# Where tables of the file were last defined: an address, or 0.
QUANTISATIONS = FRAME_BYTES
"""Of the four quantisation tables: 64 numbers in zigzag order, of 8 bits, or of 16 if the upper half of the byte before is 1."""
DC_TABLES = QUANTISATIONS + 32
"""Of the four DC Huffman tables: 16 counts, then the symbols."""
AC_TABLES = DC_TABLES + 32
SEEN_BYTES = AC_TABLES + 32
