"""Compiled step of ``crop``: copy a window, with values outside the input and, on demand, another element type.

Records are those of ``normalize_kernels`` (five strided axes); the layout does not change. Floats become integers by dropping the fraction,
as in DALI's slicing operators.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from ..compiled.intrinsics import load_i64, view_i64
from ..compiled.step import Compiled, step_variant
from .base import Step, context_table, no_explanation
from .convert_kernels import converter, storage, view
from .normalize_kernels import RECORD_LENGTH

# Context table: 0 input addresses, 1 output addresses, 2 records int64[samples, 27], 3 fill values [channels] in the output's type.

_inline = njit(inline="always")


@cache
def crop_step(in_dtype: str, out_dtype: str) -> Compiled:
    """The step for an input and an output dtype (numpy names)."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = converter(in_dtype, out_dtype, "truncate")
    in_size, out_size = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @_inline
    def fill(out, r, first, count, fills):
        """Fill `count` positions of a row from position `first`, all channels."""
        for c in range(r[24]):
            to = view_out(out + first * r[8] + c * r[9], max((count - 1) * (r[8] // out_size) + 1, 0))
            for i in range(count):
                to[i * (r[8] // out_size)] = fills[c]

    @_inline
    def copy(source, out, count):
        s, o = view_in(source, count), view_out(out, count)
        for i in range(count):
            o[i] = convert(s[i])

    @step_variant(in_dtype, out_dtype)
    def crop(context, sample, thread):
        r = view_i64(load_i64(context + 16) + 8 * RECORD_LENGTH * sample, RECORD_LENGTH)
        source = load_i64(load_i64(context) + 8 * sample)
        out = load_i64(load_i64(context + 8) + 8 * sample)
        fills = view_out(load_i64(context + 24), r[24])
        width, channels = r[23], r[24]
        interleaved = r[3] == channels * in_size
        begin = min(max(-r[18], 0), width)
        end = max(min(r[13] - r[18], width), begin)
        for f in range(r[20]):
            for z in range(r[21]):
                for y in range(r[22]):
                    from_z, from_y = z + r[16], y + r[17]
                    to = out + f * r[5] + z * r[6] + y * r[7]
                    if from_z < 0 or from_z >= r[11] or from_y < 0 or from_y >= r[12]:
                        fill(to, r, 0, width, fills)
                        continue
                    if end - begin < width:
                        fill(to, r, 0, begin, fills)
                        fill(to, r, end, width - end, fills)
                    at = source + (f + r[15]) * r[0] + from_z * r[1] + from_y * r[2] + (r[18] + begin) * r[3]
                    to += begin * r[8]
                    # Interleaved channels are one run, planes one run each.
                    runs = 1 if interleaved else channels
                    length = (end - begin) * channels if interleaved else end - begin
                    for c in range(runs):
                        copy(at + c * r[4], to + c * r[9], length)
        return 0

    return crop


def make_crop_step(
    in_addresses: np.ndarray, out_addresses: np.ndarray, records: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype, fills: np.ndarray
) -> Step:
    """The step for a batch: records from ``normalize_kernels.make_records``, fills [channels] as float64."""
    in_name, out_name = np.dtype(in_dtype).name, np.dtype(out_dtype).name
    target = np.dtype(out_dtype)
    if target.kind in "iu":
        info = np.iinfo(target)
        stored = np.array([min(max(int(value), info.min), info.max) for value in fills], target)
    else:
        stored = fills.astype(target)
    if in_name == out_name:  # One variant for all types of a size.
        in_name = out_name = f"uint{8 * storage(in_name).itemsize}"
    table, keep = context_table((in_addresses, out_addresses, records, stored))
    return Step(crop_step(in_name, out_name).address, table, no_explanation, keep=keep)
