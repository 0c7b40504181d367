"""Compiled steps of ``resize``: separable resampling of images, sequences and volumes.

A sample is addressed as ``[outer][depth][height][width][channels]``: frames and leading channels are `outer`, trailing channels are
`channels`. Every axis has a table of taps (``resize_tap_kernels``), computed in the thread's scratch. The tables include border pixels, so
the inner loops need no checks. First rows are blended, four output rows at a time, into float32 buffers that stay in the cache; then
columns. Results are rounded half to even and saturated.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import call3, larger, load_i32, load_i64, smaller, store_i32, view_f32, view_i32, view_i64, view_of
from ...compiled.job_tables import THREAD
from ...compiled.kinds import cgutils, intrinsic
from ...compiled.step import Compiled, contracted, pasted, step_variant
from .resize_tables import RESIZE, RESIZE_RECORD, TAP_HEAD

at, word, head_at, thread_at = RESIZE.at, RESIZE_RECORD.word, TAP_HEAD.at, THREAD.at
ROWS = 4
"""Output rows that are computed together."""

_inner = pasted


# ------------------------------------------------------------------------------------------------------------ rows: weighted sums


@_inner
def _row(source, stride, k, near, back):
    """Address of row `k` of a source that begins at `source`; see `_row_blend`."""
    at = source + k * stride
    return at - back if k >= near else at


@cache
def _row_blend(dtype: str) -> Any:
    """``blend(target, source, stride, weights, taps, count, near, back)``: float32 target[count] = sum of `taps` weighted rows of `dtype`.

    Rows are `stride` bytes apart. From row `near` on they lie `back` bytes earlier, because the source may be a ring buffer.
    """
    view = view_of(dtype)

    @contracted
    def blend(target, source, stride, weights, taps, count, near, back):
        out = view_f32(target, count)
        weight = view_f32(weights, taps)
        # Windows often start or end with a weight of zero.
        begin = 0
        end = taps
        while end - begin > 1 and weight[begin] == 0:
            begin += 1
        while end - begin > 1 and weight[end - 1] == 0:
            end -= 1
        a = view(_row(source, stride, begin, near, back), count)
        wa = weight[begin]
        left = end - begin
        if left == 1:
            for i in range(count):
                out[i] = wa * np.float32(a[i])
            return
        b = view(_row(source, stride, begin + 1, near, back), count)
        wb = weight[begin + 1]
        if left == 2:
            for i in range(count):
                out[i] = wa * np.float32(a[i]) + wb * np.float32(b[i])
            return
        c = view(_row(source, stride, begin + 2, near, back), count)
        wc = weight[begin + 2]
        for i in range(count):
            out[i] = wa * np.float32(a[i]) + wb * np.float32(b[i]) + wc * np.float32(c[i])
        k = begin + 3
        while k < end:
            # Add two more rows at a time. An odd last row is added a second time with weight 0.
            other = smaller(k + 1, end - 1)
            a = view(_row(source, stride, k, near, back), count)
            wa = weight[k]
            b = view(_row(source, stride, other, near, back), count)
            wb = weight[other] if other > k else np.float32(0)
            for i in range(count):
                out[i] += wa * np.float32(a[i]) + wb * np.float32(b[i])
            k += 2

    return blend


# --------------------------------------------------------------------------------------------------------- columns: weighted pixels

_F4 = ir.VectorType(ir.FloatType(), 4)
_ROUNDING = 12582912.0  # 1.5 * 2**23: adding it leaves the integer, rounded half to even, in the low bits
_RANGE = {"uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
_BYTES = {"uint8": 1, "int16": 2, "uint16": 2, "float32": 4}


def _splat(value: float) -> ir.Constant:
    return ir.Constant(_F4, [value] * 4)


def _clamped(builder: Any, value: Any, dtype: str) -> Any:
    """<4 x float> rounded and saturated to `dtype` as <4 x iN>."""
    low, high = _RANGE[dtype]
    value = builder.select(builder.fcmp_ordered(">", value, _splat(low)), value, _splat(low))
    value = builder.select(builder.fcmp_ordered("<", value, _splat(high)), value, _splat(high))
    bits = builder.bitcast(builder.fadd(value, _splat(_ROUNDING)), ir.VectorType(ir.IntType(32), 4))
    return builder.trunc(bits, ir.VectorType(ir.IntType(8 * _BYTES[dtype]), 4))


@cache
def _make_pixel(dtype: str, exact: bool) -> Any:
    """``pixel(r0, r1, r2, r3, weights, taps, step, o0, o1, o2, o3)``: one output pixel of up to 4 channels in four rows.

    r0..r3 are the addresses of the first tap in four float32 rows, `step` the bytes between pixels, o0..o3 the addresses of the results.
    Four channels are always computed. With `exact` only three are stored; otherwise the fourth overwrites the next pixel, which is written
    later.
    """
    element = ir.FloatType() if dtype == "float32" else ir.IntType(8 * _BYTES[dtype])

    @intrinsic
    def pixel(typingctx, r0, r1, r2, r3, weights, taps, step_bytes, o0, o1, o2, o3):
        def codegen(context, builder, signature, args):
            rows, weight, count, stride, outs = args[0:4], args[4], args[5], args[6], args[7:11]
            multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_F4, [_F4] * 3), "llvm.fmuladd.v4f32")
            sums = [cgutils.alloca_once_value(builder, _splat(0.0)) for _ in range(ROWS)]
            for slot in sums:
                builder.store(_splat(0.0), slot)
            with cgutils.for_range(builder, count) as loop:
                at = builder.add(weight, builder.shl(loop.index, ir.Constant(loop.index.type, 2)))
                w = builder.load(builder.inttoptr(at, ir.FloatType().as_pointer()))
                w = builder.insert_element(ir.Constant(_F4, ir.Undefined), w, ir.Constant(ir.IntType(32), 0))
                w = builder.shuffle_vector(w, ir.Constant(_F4, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4))
                shift = builder.mul(loop.index, stride)
                for row, slot in zip(rows, sums, strict=True):
                    source = builder.load(builder.inttoptr(builder.add(row, shift), _F4.as_pointer()), align=4)
                    builder.store(builder.call(multiply_add, [source, w, builder.load(slot)]), slot)
            for out, slot in zip(outs, sums, strict=True):
                value = builder.load(slot)
                value = value if dtype == "float32" else _clamped(builder, value, dtype)
                if not exact:
                    builder.store(value, builder.inttoptr(out, value.type.as_pointer()), align=_BYTES[dtype])
                    continue
                for lane in range(3):
                    spot = builder.inttoptr(builder.add(out, ir.Constant(ir.IntType(64), lane * _BYTES[dtype])), element.as_pointer())
                    builder.store(builder.extract_element(value, ir.Constant(ir.IntType(32), lane)), spot)
            return context.get_dummy_value()

        return kinds.void(*[kinds.int64] * 11), codegen

    return pixel


@cache
def _columns(dtype: str) -> Any:
    """``columns(rows, row_bytes, left, channels, first, weights, taps, width, out, out_bytes, count)``: four rows of output.

    rows       address of four float32 rows, `row_bytes` apart, that start at source column `left`
    out        address of the first output row, `out_bytes` apart; `count` (1..4) rows are stored
    """
    whole = _make_pixel(dtype, False)
    three = _make_pixel(dtype, True)
    scalar = _scalar_columns(dtype)
    size = _BYTES[dtype]

    @contracted
    def columns(rows, row_bytes, left, channels, first_at, weights, taps, width, out, out_bytes, count):
        if channels != 3 and channels != 4:
            for r in range(count):
                scalar(rows + r * row_bytes, left, channels, first_at, weights, taps, width, out + r * out_bytes)
            return
        # Four rows at a time. If fewer rows are left, the last row is computed and stored repeatedly.
        a = rows
        b = rows + row_bytes * smaller(1, count - 1)
        c = rows + row_bytes * smaller(2, count - 1)
        d = rows + row_bytes * smaller(3, count - 1)
        oa = out
        ob = out + out_bytes * smaller(1, count - 1)
        oc = out + out_bytes * smaller(2, count - 1)
        od = out + out_bytes * smaller(3, count - 1)
        first = view_i32(first_at, width)
        stride = 4 * channels
        every = width if channels == 4 else width - 1
        for x in range(every):
            at = (first[x] - left) * stride
            to = x * channels * size
            whole(a + at, b + at, c + at, d + at, weights + 4 * taps * x, taps, stride, oa + to, ob + to, oc + to, od + to)
        for x in range(every, width):
            at = (first[x] - left) * stride
            to = x * channels * size
            three(a + at, b + at, c + at, d + at, weights + 4 * taps * x, taps, stride, oa + to, ob + to, oc + to, od + to)

    return columns


@cache
def _store(dtype: str) -> Any:
    """``convert(float32) -> dtype``, rounding half to even and saturating."""
    if dtype == "float32":
        return pasted(lambda value: value)
    low, high = _RANGE[dtype]
    kind = getattr(np, dtype)
    low32, high32 = np.float32(low), np.float32(high)

    @pasted
    def convert(value):
        return kind(np.rint(smaller(larger(value, low32), high32)))

    return convert


@cache
def _scalar_columns(dtype: str) -> Any:
    """One row of output for any number of channels."""
    view = view_of(dtype)
    convert = _store(dtype)

    @contracted
    def columns(row, left, channels, first_at, weights_at, taps, width, out_at):
        first = view_i32(first_at, width)
        weights = view_f32(weights_at, width * taps)
        out = view(out_at, width * channels)
        for x in range(width):
            source = view_f32(row + 4 * channels * (first[x] - left), taps * channels)
            for c in range(channels):
                total = np.float32(0)
                for k in range(taps):
                    total += weights[x * taps + k] * source[k * channels + c]
                out[x * channels + c] = convert(total)

    return columns


@cache
def _nearest(in_dtype: str, out_dtype: str) -> Any:
    """``nearest(source, row_bytes, first_y, first_x, height, width, channels, out)``: pick pixels of one plane."""
    view_in, view_out, convert = view_of(in_dtype), view_of(out_dtype), _store(out_dtype)
    size, moved_bytes = _BYTES[out_dtype], in_dtype == out_dtype == "uint8"

    @contracted
    def nearest(source, row_bytes, first_y, first_x, height, width, channels, out_at):
        rows = view_i32(first_y, height)
        columns = view_i32(first_x, width)
        begin = 0  # pixels of a row that are copied four bytes at a time; the next pixel overwrites one of them
        if moved_bytes and channels == 3:
            while begin < width - 1 and 3 * np.int64(columns[begin]) + 4 <= row_bytes:
                begin += 1
        for y in range(height):
            row = view_in(source + rows[y] * row_bytes, row_bytes)
            out = view_out(out_at + y * width * channels * size, width * channels)
            source_row, target = source + rows[y] * row_bytes, out_at + y * width * 3
            for x in range(begin):
                store_i32(target + 3 * x, load_i32(source_row + 3 * load_i32(first_x + 4 * x)))
            for x in range(begin, width):
                at = columns[x] * channels
                for c in range(channels):
                    out[x * channels + c] = convert(np.float32(row[at + c]))

    return nearest


# ------------------------------------------------------------------------------------------------------------------------ planes


@cache
def _plane(in_dtype: str, out_dtype: str) -> Any:
    """``plane(source, out, record, head, buffer)``: resample one [height][width][channels] plane with the tables at `head`."""
    blend, columns, nearest = _row_blend(in_dtype), _columns(out_dtype), _nearest(in_dtype, out_dtype)
    in_size, out_size = _BYTES[in_dtype], _BYTES[out_dtype]

    @_inner
    def plane(source, out, record, head, buffer):
        first_y = load_i64(head + head_at.height_first)
        weights_y = load_i64(head + head_at.height_weights)
        taps_y = load_i64(head + head_at.height_count)
        first_x = load_i64(head + head_at.width_first)
        weights_x = load_i64(head + head_at.width_weights)
        taps_x = load_i64(head + head_at.width_count)
        channels, height, width = record[word.channels], record[word.out_height], record[word.out_width]
        row_bytes = record[word.in_width] * channels * in_size
        if taps_y == 1 and taps_x == 1:
            nearest(source, row_bytes, first_y, first_x, height, width, channels, out)
            return
        first = view_i32(first_x, width)
        # First source indices are monotonic: ascending, or descending for flips.
        left = smaller(first[0], first[width - 1])
        count = (larger(first[0], first[width - 1]) + taps_x - left) * channels
        buffer_bytes = (4 * count + 16 + 63) & -64
        rows = view_i32(first_y, height)
        out_bytes = width * channels * out_size
        y = 0
        while y < height:
            wanted = smaller(ROWS, height - y)
            for r in range(wanted):
                corner = source + rows[y + r] * row_bytes + left * channels * in_size
                blend(buffer + r * buffer_bytes, corner, row_bytes, weights_y + 4 * taps_y * (y + r), taps_y, count, taps_y, 0)
            columns(buffer, buffer_bytes, left, channels, first_x, weights_x, taps_x, width, out + y * out_bytes, out_bytes, wanted)
            y += wanted

    return plane


@cache
def image_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for samples without a resized depth axis (depth counts as outer); see ``resize_tables``."""
    plane = _plane(in_dtype, out_dtype)
    in_size, out_size = _BYTES[in_dtype], _BYTES[out_dtype]

    @step_variant(in_dtype, out_dtype)
    def resize_image(context, sample, thread):
        fed = load_i64(context + at.fed)
        if fed != 0 and load_i64(fed + 8 * sample) != 0:
            return 0  # resize_rows.py has computed this sample while it was decoded.
        record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        scratch = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        in_bytes = record[word.in_height] * record[word.in_width] * record[word.channels] * in_size
        out_bytes = record[word.out_height] * record[word.out_width] * record[word.channels] * out_size
        if in_bytes == 0 or out_bytes == 0:
            return 0
        call3(load_i64(context + at.tap_tables), context, sample, scratch)
        for _ in range(record[word.outer] * record[word.in_depth]):
            plane(source, out, record, scratch, load_i64(scratch + head_at.free))
            source += in_bytes
            out += out_bytes
        return 0

    return resize_image


@cache
def volume_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for volumes: planes are blended along the depth into float32, then resampled like images."""
    blend, plane = _row_blend(in_dtype), _plane("float32", out_dtype)
    in_size, out_size = _BYTES[in_dtype], _BYTES[out_dtype]

    @step_variant(in_dtype, out_dtype)
    def resize_volume(context, sample, thread):
        record = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        scratch = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        count = record[word.in_height] * record[word.in_width] * record[word.channels]
        out_bytes = record[word.out_height] * record[word.out_width] * record[word.channels] * out_size
        in_depth = record[word.in_depth]
        depth = record[word.out_depth]
        if count == 0 or out_bytes == 0 or in_depth == 0:
            return 0
        call3(load_i64(context + at.tap_tables), context, sample, scratch)
        first = view_i32(load_i64(scratch + head_at.depth_first), depth)
        weights = load_i64(scratch + head_at.depth_weights)
        taps = load_i64(scratch + head_at.depth_count)
        blended = load_i64(scratch + head_at.free)
        buffer = blended + ((4 * count + 63) & -64)
        for _ in range(record[word.outer]):
            for z in range(depth):
                blend(blended, source + first[z] * count * in_size, count * in_size, weights + 4 * taps * z, taps, count, taps, 0)
                plane(blended, out, record, scratch, buffer)
                out += out_bytes
            source += in_depth * count * in_size
        return 0

    return resize_volume
