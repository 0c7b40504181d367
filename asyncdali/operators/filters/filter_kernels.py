"""The compiled step of filter: a plane is brought into scratch memory with what is outside of it, then rows are summed tap by tap."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.intrinsics import larger, load_i64, smaller, store_i64, view_f32
from ...compiled.step import Compiled, inlined, step_variant
from ...device.launch import Entry, Kernel, Launch, element_type, grid_of
from ..arrays.convert_kernels import converter, load_value, storage, view
from ..base import Step, context_table, no_explanation
from .separable_kernels import reflected, weighted_sum

# Context table: 0 input addresses, 1 filter addresses, 2 addresses of fill values (or 0), 3 output addresses, 4 records int64[samples, 14]:
# planes, depth, height, width, channels, output depth, height, width, filter depth, height, width, anchor depth, height, width; 5 border,
# 6 scratch offset.
_SCRATCH_FIELD = 6
_SOURCE = Path(__file__).with_name("filter_kernels.cu")
_REFLECT_101, _REFLECT_1001, _WRAP, _CLAMP, _CONSTANT = range(5)


@inlined
def inside(index, extent, border):
    """Where the pixel `index` is taken from, or -1 for the fill value."""
    if 0 <= index < extent:
        return index
    if border == _CONSTANT:
        return np.int64(-1)
    if border == _CLAMP:
        return smaller(larger(index, np.int64(0)), extent - 1)
    if border == _REFLECT_101:
        return reflected(index, extent)
    period = extent if border == _WRAP else 2 * extent
    index = index % period
    index = index + period if index < 0 else index
    return index if index < extent else period - 1 - index


@cache
def filter_step(in_dtype: str, out_dtype: str) -> Compiled:
    """The step for numpy names of dtypes."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    value, convert = load_value(in_dtype), converter("float32", out_dtype)
    in_bytes, out_bytes = storage(in_dtype).itemsize, storage(out_dtype).itemsize

    @inlined
    def load_row(target, address, width, channels, total, anchor, border, fill):
        """A row with what is before and behind it, `total` pixels; from nowhere (address 0) only the fill value."""
        row = view_f32(target, total * channels)
        source = view_in(address, width * channels)
        for x in range(total):
            at = inside(x - anchor, width, border) if address != 0 else np.int64(-1)
            for c in range(channels):
                row[x * channels + c] = np.float32(value(source[at * channels + c])) if at >= 0 else fill

    @step_variant(in_dtype, out_dtype)
    def correlate(context, sample, thread):
        record = load_i64(context + 32) + 112 * sample
        planes, depth, height = load_i64(record), load_i64(record + 8), load_i64(record + 16)
        width, channels = load_i64(record + 24), load_i64(record + 32)
        out_depth, out_height, out_width = load_i64(record + 40), load_i64(record + 48), load_i64(record + 56)
        deep, high, wide = load_i64(record + 64), load_i64(record + 72), load_i64(record + 80)
        border, fill = load_i64(context + 40), np.float32(0)
        if load_i64(context + 16) != 0:
            fill = np.float32(value(view_in(load_i64(load_i64(context + 16) + 8 * sample), 1)[0]))
        source, target = load_i64(load_i64(context) + 8 * sample), load_i64(load_i64(context + 24) + 8 * sample)
        weights = load_i64(load_i64(context + 8) + 8 * sample)
        if planes * depth * height * width * channels == 0:
            return 0
        taps, row, total_rows = deep * high * wide, out_width * channels, out_height + high - 1
        table = load_i64(thread) + load_i64(context + 48)
        acc = table + 8 * taps
        padded, padded_row = acc + 4 * row, 4 * (out_width + wide - 1) * channels
        for plane in range(planes):
            for z in range(out_depth + deep - 1):
                from_z = inside(z - load_i64(record + 88), depth, border)
                for y in range(total_rows):
                    from_y = inside(y - load_i64(record + 96), height, border)
                    address = np.int64(0)
                    if from_z >= 0 and from_y >= 0:
                        address = source + in_bytes * ((plane * depth + from_z) * height + from_y) * width * channels
                    place = padded + padded_row * (z * total_rows + y)
                    load_row(place, address, width, channels, out_width + wide - 1, load_i64(record + 104), border, fill)
            for z in range(out_depth):
                for y in range(out_height):
                    for k in range(taps):
                        line = (z + k // (high * wide)) * total_rows + y + k // wide % high
                        store_i64(table + 8 * k, padded + padded_row * line + 4 * channels * (k % wide))
                    weighted_sum(acc, table, weights, taps, row)
                    out = view_out(target + out_bytes * ((plane * out_depth + z) * out_height + y) * row, row)
                    sums = view_f32(acc, row)
                    for i in range(row):
                        out[i] = convert(sums[i])
        return 0

    return correlate


def make_filter_step(inputs: list[Batch], output: Batch, records: np.ndarray, border: int) -> Step:
    """The step for a batch of samples, filters and perhaps fill values; records: see the context table."""
    source = inputs[0]
    records = np.ascontiguousarray(records, np.int64)
    fills = inputs[2].addresses if len(inputs) == 3 else 0
    values = (source.addresses, inputs[1].addresses, fills, output.addresses, records, border, 0)
    table, keep = context_table(values)
    compiled_step = filter_step(storage_dtype(source.dtype).name, storage_dtype(output.dtype).name)
    step = Step(compiled_step.address, table, no_explanation, _scratch(records), _SCRATCH_FIELD, keep)
    step.launches = lambda: [_launch(inputs, output, records, border)]
    return step


def _launch(inputs: list[Batch], output: Batch, records: np.ndarray, border: int) -> Launch:
    names = (("IN", element_type(storage_dtype(inputs[0].dtype))), ("OUT", element_type(storage_dtype(output.dtype))))
    fills: Entry = inputs[2].addresses if len(inputs) == 3 else 0
    context = (inputs[0].addresses, inputs[1].addresses, fills, output.addresses, records, border, len(records))
    largest = int((records[:, 0] * records[:, 4:8].prod(axis=1)).max(initial=0))
    return Launch(Kernel(_SOURCE, "correlate", names), context, grid_of(largest, len(records)))


def _scratch(records: np.ndarray) -> int:
    """Bytes of scratch for the largest sample; see the step."""
    if not len(records):
        return 0
    padded = (records[:, 5:8] + records[:, 8:11] - 1).prod(axis=1)
    floats = (padded + records[:, 7]) * records[:, 4]
    return int((8 * records[:, 8:11].prod(axis=1) + 4 * floats).max()) + 64
