"""Records of the decoder: byte offsets of their int64 fields, declared once."""

from __future__ import annotations


def offsets(count: int, start: int = 0) -> range:
    """Byte offsets of `count` int64 fields from byte `start` on."""
    return range(start, start + 8 * count, 8)


# A frame: the contents of a file's headers up to its first scan (markers.py).
WIDTH, HEIGHT, COMPONENTS, LARGEST_H, LARGEST_V, RESTART, SCAN_HEADER, SCAN_DATA, MARKER = offsets(9)
PROGRESSIVE = 0xC2
"""The value of MARKER for progressive files."""
FIRST_COMPONENT = 128
"""Offset of the first of up to three component records."""
COMPONENT_BYTES = 128
# A component: offsets from the start of its record.
SAMPLING_H, SAMPLING_V, QUANTISATION, DC_CODES, AC_CODES, NAME, QUANTISATION_SLOT = offsets(7)
# Progressive files only: address of all coefficients, groups per block row, a mask of nonzero coefficients per block, bits decoded of each.
ALL_COEFFICIENTS, ROW_GROUPS, MASKS, PRECISIONS = offsets(4, 56)
FRAME_BYTES = FIRST_COMPONENT + 3 * COMPONENT_BYTES

# Address of the last definition of each table in the file, or 0.
QUANTISATIONS = FRAME_BYTES
"""Four quantisation tables: 64 numbers in zigzag order. They have 16 bits if the upper half of the byte before is 1, else 8 bits."""
DC_TABLES = QUANTISATIONS + 32
"""Four DC Huffman tables: 16 counts, then the symbols."""
AC_TABLES = DC_TABLES + 32
SEEN_BYTES = AC_TABLES + 32
