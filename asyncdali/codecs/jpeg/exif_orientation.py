"""The orientation in EXIF data, which turns and mirrors a picture for display."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_u8
from ...compiled.step import inlined
from .markers import big_endian


@inlined
def _word(at, little):
    """The number of 16 bits at address `at`, big-endian unless `little`."""
    return np.int64(load_u8(at + 1)) << 8 | np.int64(load_u8(at)) if little else big_endian(at)


@inlined
def is_exif(at, stop):
    """Whether an APP1 segment at addresses at..stop holds EXIF data. Others hold XMP."""
    return stop - at >= 6 and big_endian(at) == 0x4578 and big_endian(at + 2) == 0x6966 and load_u8(at + 4) == 0


@inlined
def exif_orientation(at, stop):
    """EXIF orientation (1-8) in an APP1 segment at addresses at..stop, or 1. TIFF 6.0 section 2; tag 0x0112.

    ``image_headers.tiff_orientation`` has the same rule for other formats.
    """
    if stop - at < 14:
        return 1
    base = at + 6
    little = load_u8(base) == 0x49
    order = 0x4949 if little else 0x4D4D  # "II" or "MM", then the number 42.
    if big_endian(base) != order or _word(base + 2, little) != 42:
        return 1
    # The directory's offset has 32 bits; a segment's length has 16.
    at = base + _word(base + (4 if little else 6), little)
    if _word(base + (6 if little else 4), little) != 0 or at + 2 > stop:
        return 1
    entries = _word(at, little)
    for k in range(entries):
        entry = at + 2 + 12 * k
        if entry + 12 > stop:
            return 1
        if _word(entry, little) == 0x0112:
            return _orientation_value(entry, little)
    return 1


@inlined
def _orientation_value(entry, little):
    """The orientation in a TIFF entry: one number of 8, 16 or 32 bits, signed or not; 1 for anything else."""
    kind, low, high = _word(entry + 2, little), entry + (4 if little else 6), entry + (6 if little else 4)
    if _word(low, little) != 1 or _word(high, little) != 0:
        return 1
    value = np.int64(0)
    if kind == 1 or kind == 6:
        value = np.int64(load_u8(entry + 8))
    elif kind == 3 or kind == 8:
        value = _word(entry + 8, little)
    elif kind == 4 or kind == 9:
        value = _word(entry + (10 if little else 8), little) << 16 | _word(entry + (8 if little else 10), little)
    return value if 1 <= value <= 8 else 1
