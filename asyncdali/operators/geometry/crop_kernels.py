"""Compiled step of ``crop``: copy a window, with values outside the input and, on demand, another element type.

Records are those of ``normalize_kernels`` (five strided axes); the layout does not change. Floats become integers by dropping the fraction,
and what is too large for a float type is its largest, as in DALI's slicing operators.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

from ...compiled.intrinsics import larger, load_i64, smaller, view_i64
from ...compiled.step import Compiled, inlined, step_variant
from ...device.launch import Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import slicing_converter, storage, view
from ..base import Step, context_table, no_explanation
from .normalize_kernels import RECORD_LENGTH

# Context table: 0 input addresses, 1 output addresses, 2 records int64[samples, 27], 3 fill values [channels] in the output's type,
# 4 border: 0 fill, else how the input goes on (crop_rules.BORDERS).

_SOURCE = Path(__file__).with_suffix(".cu")

_inline = njit(inline="always")


@inlined
def _inside(index, extent, border):
    """The index in 0..extent-1 that stands for `index` beyond the input; -1 for none."""
    if 0 <= index < extent:
        return index
    if border == 0 or extent <= 0:
        return -1
    if border == 1:
        return 0 if index < 0 else extent - 1
    if border == 2:
        return index % extent
    period = larger(2 * extent - (2 if border == 4 else 0), 1)
    index %= period
    return index if index < extent else period - index - (0 if border == 4 else 1)


@cache
def crop_step(in_dtype: str, out_dtype: str) -> Compiled:
    """The step for an input and an output dtype (numpy names)."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = slicing_converter(in_dtype, out_dtype)
    in_size, out_size = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @inlined
    def outside(row, out, r, first, count, fills, border):
        """`count` positions of an output row from position `first`, all channels; `row` is the source row's first column."""
        if border != 0 and r[13] > 0:
            for i in range(first, first + count):
                at = row + _inside(i + r[18], r[13], border) * r[3]
                for c in range(r[24]):
                    view_out(out + i * r[8] + c * r[9], 1)[0] = convert(view_in(at + c * r[4], 1)[0])
            return
        for c in range(r[24]):
            to = view_out(out + first * r[8] + c * r[9], larger((count - 1) * (r[8] // out_size) + 1, 0))
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
        width, channels, border = r[23], r[24], load_i64(context + 32)
        interleaved = r[3] == channels * in_size
        begin = smaller(larger(-r[18], 0), width)
        end = larger(smaller(r[13] - r[18], width), begin)
        for f in range(r[20]):
            for z in range(r[21]):
                for y in range(r[22]):
                    from_f = _inside(f + r[15], r[10], border)
                    from_z = _inside(z + r[16], r[11], border)
                    from_y = _inside(y + r[17], r[12], border)
                    to = out + f * r[5] + z * r[6] + y * r[7]
                    if from_f < 0 or from_z < 0 or from_y < 0:
                        outside(source, to, r, 0, width, fills, 0)
                        continue
                    row = source + from_f * r[0] + from_z * r[1] + from_y * r[2]
                    if end - begin < width:
                        outside(row, to, r, 0, begin, fills, border)
                        outside(row, to, r, end, width - end, fills, border)
                    at = row + (r[18] + begin) * r[3]
                    to += begin * r[8]
                    # Interleaved channels are one run, planes one run each.
                    runs = 1 if interleaved else channels
                    length = (end - begin) * channels if interleaved else end - begin
                    for c in range(runs):
                        copy(at + c * r[4], to + c * r[9], length)
        return 0

    return crop


def make_crop_step(
    in_addresses: np.ndarray,
    out_addresses: np.ndarray,
    records: np.ndarray,
    in_dtype: np.dtype,
    out_dtype: np.dtype,
    fills: np.ndarray,
    border: int = 0,
) -> Step:
    """The step for a batch: records from ``normalize_kernels.make_records``, fills [channels] as float64, border from crop_rules."""
    in_name, out_name = np.dtype(in_dtype).name, np.dtype(out_dtype).name
    target = np.dtype(out_dtype)
    if target.kind in "iu":
        info = np.iinfo(target)
        stored = np.array([min(max(int(value), info.min), info.max) for value in fills], target)
    else:
        stored = fills.astype(target)
    if in_name == out_name:  # One variant for all types of a size.
        in_name = out_name = f"uint{8 * storage(in_name).itemsize}"
    table, keep = context_table((in_addresses, out_addresses, records, stored, border))
    types = ("IN", element_type(in_name)), ("OUT", element_type(out_name))

    def launches() -> list[Launch]:
        count = len(records)
        context = (in_addresses, out_addresses, records, stored, border, count)
        return [Launch(Kernel(_SOURCE, "crop", types), context, grid_of(int(records[:, 20:24].prod(axis=1).max(initial=0)), count))]

    return Step(crop_step(in_name, out_name).address, table, no_explanation, keep=keep, launches=launches)
