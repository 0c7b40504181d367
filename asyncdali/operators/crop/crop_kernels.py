"""Compiled step of ``crop``: copy a window, fill values outside the input, and optionally convert the element type.

Samples are addressed with five strided axes (``crop_tables``); the layout does not change. As in DALI's slicing operators, floats lose
their fraction when they become integers, and values too large for a float type become its largest value.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.addresses import products
from ...compiled.convert_kernels import slicing_converter, storage, view
from ...compiled.intrinsics import larger, load_i64, smaller, view_i64
from ...compiled.step import Compiled, inlined, pasted, step_variant
from ...device.launch import Kernel, Launch, element_type, grid_of
from ..base import Step, TableStep, no_explanation
from ..moves.pieces import move_launch
from ..moves.pieces_tables import PIECE_HEAD
from .crop_tables import AXES, CROP, WINDOW

at, word = CROP.at, WINDOW.word
_SOURCE = Path(__file__).with_suffix(".cu")
_ANCHOR, _IN_EXTENT, _OUT_EXTENT, _IN_STRIDE, _OUT_STRIDE = (
    WINDOW.columns(name) for name in ("anchor", "in_extent", "out_extent", "in_stride", "out_stride")
)

_inline = pasted


@inlined
def inside(index, extent, border):
    """The index in 0..extent-1 that `index` maps to beyond the input; -1 if there is none."""
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
    """The step for an input and an output dtype (NumPy names)."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = slicing_converter(in_dtype, out_dtype)
    in_size, out_size = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @inlined
    def outside(row, out, r, first, count, fills, border):
        """`count` positions of an output row from position `first`, with all channels. `row` is the first column of the source row."""
        in_stride, in_channel = r[word.in_stride_w], r[word.in_stride_c]
        out_stride, out_channel, channels = r[word.out_stride_w], r[word.out_stride_c], r[word.out_extent_c]
        if border != 0 and r[word.in_extent_w] > 0:
            for i in range(first, first + count):
                place = row + inside(i + r[word.anchor_w], r[word.in_extent_w], border) * in_stride
                for c in range(channels):
                    view_out(out + i * out_stride + c * out_channel, 1)[0] = convert(view_in(place + c * in_channel, 1)[0])
            return
        elements = out_stride // out_size
        for c in range(channels):
            to = view_out(out + first * out_stride + c * out_channel, larger((count - 1) * elements + 1, 0))
            for i in range(count):
                to[i * elements] = fills[c]

    @_inline
    def copy(source, out, count):
        s, o = view_in(source, count), view_out(out, count)
        for i in range(count):
            o[i] = convert(s[i])

    @step_variant(in_dtype, out_dtype)
    def crop(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        fills = view_out(load_i64(context + at.fills), r[word.out_extent_c])
        width, channels, border = r[word.out_extent_w], r[word.out_extent_c], load_i64(context + at.border)
        interleaved = r[word.in_stride_w] == channels * in_size
        begin = smaller(larger(-r[word.anchor_w], 0), width)
        end = larger(smaller(r[word.in_extent_w] - r[word.anchor_w], width), begin)
        for f in range(r[word.out_extent_f]):
            for z in range(r[word.out_extent_d]):
                for y in range(r[word.out_extent_h]):
                    from_f = inside(f + r[word.anchor_f], r[word.in_extent_f], border)
                    from_z = inside(z + r[word.anchor_d], r[word.in_extent_d], border)
                    from_y = inside(y + r[word.anchor_h], r[word.in_extent_h], border)
                    to = out + f * r[word.out_stride_f] + z * r[word.out_stride_d] + y * r[word.out_stride_h]
                    if from_f < 0 or from_z < 0 or from_y < 0:
                        outside(source, to, r, 0, width, fills, 0)
                        continue
                    row = source + from_f * r[word.in_stride_f] + from_z * r[word.in_stride_d] + from_y * r[word.in_stride_h]
                    if end - begin < width:
                        outside(row, to, r, 0, begin, fills, border)
                        outside(row, to, r, end, width - end, fills, border)
                    begin_at = row + (r[word.anchor_w] + begin) * r[word.in_stride_w]
                    to += begin * r[word.out_stride_w]
                    # Interleaved channels form one run of elements. With planes, each channel is a run.
                    runs = 1 if interleaved else channels
                    length = (end - begin) * channels if interleaved else end - begin
                    for c in range(runs):
                        copy(begin_at + c * r[word.in_stride_c], to + c * r[word.out_stride_c], length)
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
    """The step for a batch: records from ``normalize_kernels.make_records``, fill values float64[channels], border from crop_rules."""
    in_name, out_name = np.dtype(in_dtype).name, np.dtype(out_dtype).name
    target = np.dtype(out_dtype)
    if target.kind in "iu":
        info = np.iinfo(target)
        stored = np.array([min(max(int(value), info.min), info.max) for value in fills], target)
    else:
        stored = fills.astype(target)
    if in_name == out_name:  # One variant for all types of a size.
        in_name = out_name = f"uint{8 * storage(in_name).itemsize}"
    count = len(records)
    entries = CROP.entries(inputs=in_addresses, outputs=out_addresses, records=records, fills=stored, border=border, samples=count)
    types = ("IN", element_type(in_name)), ("OUT", element_type(out_name))

    def launches() -> list[Launch]:
        begin, window = records[:, _ANCHOR], records[:, _OUT_EXTENT]
        if not ((begin < 0) | (begin + window > records[:, _IN_EXTENT])).any():  # All windows lie inside their inputs: a strided copy.
            pieces = np.zeros((count, 1, PIECE_HEAD.words + 3 * len(AXES)), np.int64)
            along = (window, records[:, _IN_STRIDE], records[:, _OUT_STRIDE])
            pieces[:, 0, PIECE_HEAD.words :] = np.concatenate(along, axis=1)
            pieces[:, 0, PIECE_HEAD.word.offset] = (begin * records[:, _IN_STRIDE]).sum(axis=1)
            sizes = storage(in_name).itemsize, storage(out_name).itemsize
            return [move_launch(in_addresses, out_addresses, pieces, 0, types, sizes)]
        positions = products(records[:, word.out_extent_f : word.out_extent_c])
        return [Launch(Kernel(_SOURCE, "crop", types), entries, grid_of(int(positions.max(initial=0)), count))]

    return TableStep(crop_step(in_name, out_name).address, entries, no_explanation, launches=launches)
