"""The layout of the work memory for one picture: byte offsets of tables and of their int64 fields."""

from __future__ import annotations

from .fields import SEEN_BYTES, offsets
from .huffman import AC_BITS, AC_TABLE_BYTES, DC_TABLE_BYTES
from .huffman_decoding import BLOCK_BYTES, STATE_BYTES

# The work area. It starts with the frame's record.
STATE = 1024  # State of entropy decoding.
SPECS = STATE + 64  # Up to six blocks of an MCU.
HAZARD = SPECS + 6 * BLOCK_BYTES  # See inverse_dct.py.
LAST_PIXELS = HAZARD + 64  # 32 pixels, for the end of a row that has no room for 32.
PLAN = LAST_PIXELS + 128
FACTORS = PLAN + 384  # Factors of each component: see inverse_dct.py.
TABLES = FACTORS + 3 * 512  # Huffman tables of each component.
SINGLE = TABLES + 3 * (DC_TABLE_BYTES + AC_TABLE_BYTES)  # See huffman.build_ac.
ROWS = SINGLE + (8 << AC_BITS)
"""Behind it: coefficients, strips, unstuffed data."""
assert SEEN_BYTES <= STATE and STATE_BYTES <= 64

# The plan of a window. The records of its components follow.
(ACROSS, DOWN, FIRST_MCU, STOP_MCU, FIRST_ROW, STOP_ROW, PARTS, SPECS_STOP, COEFFICIENTS_STOP, SOURCE, DATA_STOP, SEGMENT, SEGMENT_BITS,
 BYTES_AT, SCAN_COMPONENT, SCAN_SPECS_STOP, RECORD, PER_ROW) = offsets(18)  # fmt: skip
"""ACROSS, DOWN: MCUs of the picture. FIRST_MCU to STOP_ROW: MCUs of the window. PARTS: components to decode. SPECS_STOP,
COEFFICIENTS_STOP: ends of tables. SOURCE: start of the next entropy-coded segment. DATA_STOP: end of the file. SEGMENT, SEGMENT_BITS,
BYTES_AT: number of the current segment, its bits, and the address of its unstuffed data. SCAN_COMPONENT, SCAN_SPECS_STOP: last component
of a progressive file's scan, and the end of its blocks' records. RECORD, PER_ROW: the record of block positions, or 0, and the number of
positions per row (block_positions.py)."""
PART = 18 * 8
# A component: its strip (the first sample of row 0, which is the last row of the MCUs before), bytes per row; coefficients of a tile,
# groups per block row of the tile, block rows per MCU; lengths of the blocks' coefficients.
STRIP, STRIDE, COEFFICIENTS, GROUPS, BLOCK_ROWS, LENGTHS_AT = offsets(6)
PART_BYTES = 48
LEFT, RIGHT = 64, 64
"""Bytes beside a strip's rows: the filter reads one on each side, and pixels are processed 32 at a time."""
TILE = 8
"""MCUs that are decoded before they are transformed. The coefficients of 8 MCUs stay in the L1 cache."""
