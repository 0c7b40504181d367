"""The compiled step of copy."""

from __future__ import annotations

from ..compiled.intrinsics import load_i64, view_u8
from ..compiled.step import step


@step
def copy_step(context, sample, thread):
    """Context: source addresses, destination addresses, sizes in bytes (int64[samples] each)."""
    size = load_i64(load_i64(context + 16) + 8 * sample)
    source = view_u8(load_i64(load_i64(context) + 8 * sample), size)
    destination = view_u8(load_i64(load_i64(context + 8) + 8 * sample), size)
    for k in range(size):
        destination[k] = source[k]
    return 0
