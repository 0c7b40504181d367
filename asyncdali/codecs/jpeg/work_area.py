"""The memory that decoding one picture works in: what lies where. Byte offsets of tables and of their int64 fields."""

from __future__ import annotations

from .entropy import BLOCK_BYTES, STATE_BYTES
from .fields import SEEN_BYTES, offsets
from .huffman import AC_BITS, AC_TABLE_BYTES, DC_TABLE_BYTES

# The work area. It begins with the frame's record.
STATE = 1024  # of entropy decoding
SPECS = STATE + 64  # up to six blocks of an MCU
HAZARD = SPECS + 6 * BLOCK_BYTES  # see transform.py
LAST_PIXELS = HAZARD + 64  # 32 pixels that a row has no room for
PLAN = LAST_PIXELS + 128
FACTORS = PLAN + 384  # of each component: see transform.py
TABLES = FACTORS + 3 * 512  # Huffman tables of each component
SINGLE = TABLES + 3 * (DC_TABLE_BYTES + AC_TABLE_BYTES)  # see huffman.build_ac
ROWS = SINGLE + (8 << AC_BITS)
"""Behind it: coefficients, strips, data without stuffing."""
assert SEEN_BYTES <= STATE and STATE_BYTES <= 64

# The plan of a window, and what is kept of each component behind it.
(ACROSS, DOWN, FIRST_MCU, STOP_MCU, FIRST_ROW, STOP_ROW, PARTS, SPECS_STOP, COEFFICIENTS_STOP, SOURCE, DATA_STOP, SEGMENT, SEGMENT_BITS,
 BYTES_AT, SCAN_COMPONENT, SCAN_SPECS_STOP, RECORD, PER_ROW) = offsets(18)  # fmt: skip
"""MCUs of the picture and of the window; components that are decoded; ends of tables; where the next entropy-coded segment begins and the
file ends; number of the current segment, its bits, and where they lie without stuffing; of a
progressive file's scan the last component, and the end of its blocks' records; the record of block positions, or 0, and how many of them
a row has (positions.py)."""
PART = 18 * 8
# Of a component: its strip (the first sample of row 0, which is the last row of the MCUs before), bytes per row; coefficients of a tile,
# groups per block row of it, block rows per MCU; lengths of the blocks' coefficients.
STRIP, STRIDE, COEFFICIENTS, GROUPS, BLOCK_ROWS, LENGTHS_AT = offsets(6)
PART_BYTES = 48
LEFT, RIGHT = 64, 64
"""Bytes beside a strip's rows: the filter looks at one on each side, and pixels are taken by 32."""
TILE = 8
"""MCUs that are decoded before they are transformed: so many that their coefficients stay in the L1 cache."""
