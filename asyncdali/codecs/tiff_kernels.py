"""The horizontal predictor of TIFF (TIFF 6.0, section 14)."""

from __future__ import annotations

import numpy as np

from ..compiled.intrinsics import view_of, view_u8
from ..compiled.step import compiled

_view_u16 = view_of(np.uint16)


@compiled(5)
def undo_predictor(values, size, count, channels, itemsize):
    """Add to each of `size` values of 1 or 2 bytes its left neighbour of the same channel, in rows of `count` values. Sums wrap."""
    short, wide = view_u8(values, size), _view_u16(values, size)
    for row in range(0, size, count):
        for channel in range(row, row + channels):
            if itemsize == 1:
                total = np.uint8(0)
                for k in range(channel, row + count, channels):
                    total = np.uint8(total + short[k])
                    short[k] = total
            else:
                total_wide = np.uint16(0)
                for k in range(channel, row + count, channels):
                    total_wide = np.uint16(total_wide + wide[k])
                    wide[k] = total_wide
    return 0
