"""Records of the decoder: byte offsets of their int64 fields, declared once."""

from __future__ import annotations


def offsets(count: int, start: int = 0) -> range:
    """Byte offsets of `count` int64 fields from byte `start` on."""
    return range(start, start + 8 * count, 8)


# A frame: what a file says before its first scan's data (markers.py).
WIDTH, HEIGHT, COMPONENTS, LARGEST_H, LARGEST_V, RESTART, SCAN_DATA, MARKER = offsets(8)
FIRST_COMPONENT = 64
"""Where the record of the first of up to three components begins."""
COMPONENT_BYTES = 64
# A component, from its own begin.
SAMPLING_H, SAMPLING_V, QUANTISATION, DC_CODES, AC_CODES, NAME, QUANTISATION_SLOT = offsets(7)
FRAME_BYTES = FIRST_COMPONENT + 3 * COMPONENT_BYTES

# Where tables of the file were last defined: an address, or 0.
QUANTISATIONS = FRAME_BYTES
"""Of the four quantisation tables: 64 bytes in zigzag order."""
DC_TABLES = QUANTISATIONS + 32
"""Of the four DC Huffman tables: 16 counts, then the symbols."""
AC_TABLES = DC_TABLES + 32
SEEN_BYTES = AC_TABLES + 32
