"""Compiled steps of ``resize``: separable resampling of images, sequences and volumes.

A sample is seen as ``[outer][depth][height][width][channels]``: frames and leading channels are `outer`, trailing channels are
`channels`. Every axis has a table of taps (first source index and weights per output), computed in the thread's scratch; a pixel
outside the image is the border pixel, so its weight is added to the border's and the inner loops need no checks. Rows are blended
first, four output rows at a time into float32 buffers that stay in the cache, then columns. Results are rounded half to even and
saturated.

Filters are lookup tables with linear interpolation of the sizes that DALI 2.4 uses (found by resampling unit matrices: tri 3,
gaussian 65, cubic 129, lanczos3 193 entries), so weights agree to 5e-6.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...compiled.intrinsics import (  # fmt: skip
    call3,
    larger,
    load_f64,
    load_i32,
    load_i64,
    smaller,
    store_f64,
    store_i64,
    view_f32,
    view_f64,
    view_i32,
    view_of,
)
from ...compiled.memory import address_of
from ...compiled.step import Compiled, compiled, contracted, step_variant
from ...device.launch import Kernel, Launch, Pixels, Scratch, element_type, grid_of
from ..base import Step, no_explanation
from .resize_rules import Geometry

NN, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN = range(6)

# Context table: 0 input addresses, 1 output addresses, 2 RECORD_FIELDS int64[samples, 11], 3 source intervals float64[samples, 3, 2]
# (depth, height, width; lo, hi), 4 filter tables float32, 5 filter descriptions int32[6, 3] (offset, entries, radius), 6 scratch offset,
# 7 address of tap_tables.
RECORD_FIELDS = (
    "outer", "in_depth", "in_height", "in_width", "channels", "out_depth", "out_height", "out_width",
    "min_filter", "mag_filter", "antialias",
)  # fmt: skip
_SCRATCH_FIELD = 6
_SOURCE = Path(__file__).with_suffix(".cu")
_ROWS = 4
_inner = njit(inline="always")


def _filter_tables() -> tuple[np.ndarray, np.ndarray]:
    """All filters as one float32 array, each with a zero before and after, and int32[6, 3] (offset, entries, radius)."""

    def sampled(function: Any, radius: int, entries: int) -> np.ndarray:
        return np.pad(function(np.linspace(-radius, radius, entries)), 1)

    def cubic(x: np.ndarray) -> np.ndarray:  # Catmull-Rom
        x = np.abs(x)
        return np.where(x <= 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))

    triangular = sampled(lambda x: 1 - np.abs(x), 1, 3)
    tables = {
        NN: (triangular, 1),
        LINEAR: (triangular, 1),
        CUBIC: (sampled(cubic, 2, 129), 2),
        LANCZOS3: (sampled(lambda x: np.sinc(x) * np.sinc(x / 3), 3, 193), 3),
        TRIANGULAR: (triangular, 1),
        GAUSSIAN: (sampled(lambda x: np.exp(-4 * x * x), 1, 65), 1),
    }
    offsets = np.cumsum([0] + [len(tables[kind][0]) for kind in range(5)])
    rows = [(offsets[kind], len(tables[kind][0]) - 2, tables[kind][1]) for kind in range(6)]
    return np.concatenate([tables[kind][0] for kind in range(6)]).astype(np.float32), np.array(rows, np.int32)


_TABLES, _DESCRIPTIONS = _filter_tables()
_TABLES_AT, _DESCRIPTIONS_AT = address_of(_TABLES), address_of(_DESCRIPTIONS)


# ------------------------------------------------------------------------------------------------------------------ tap tables


@_inner
def _count_taps(extent, out_extent, lo, hi, kind, antialias, radius):
    """(taps, support scale) of an axis: how many source pixels one output takes, and by how much the filter is widened."""
    if kind == NN:
        return 1, np.float32(1)
    widen = np.float32(1)
    scale = np.float32(abs(hi - lo) / out_extent)
    if antialias != 0 and scale > widen:
        widen = scale
    return smaller(np.int64(np.ceil(np.float32(2) * np.float32(radius) * widen)), extent), widen


@_inner
def _fill_nearest(extent, out_extent, lo, hi, running, first, weights):
    """Nearest source indices; DALI computes columns one by one and (`running`) rows and planes as a running float32 sum.

    Positions count from the first whole pixel of the source interval, which matters where they fall on a boundary.
    """
    scale = np.float32((hi - lo) / out_extent)
    begin = larger(np.int64(np.floor(smaller(lo, hi))), 0)
    origin = np.float32(lo - begin)
    center = origin + np.float32(0.5) * scale
    for i in range(out_extent):
        if not running:
            center = origin + (np.float32(i) + np.float32(0.5)) * scale
        first[i] = smaller(larger(begin + np.int64(np.floor(center)), 0), extent - 1)
        weights[i] = np.float32(1)
        center += scale


@_inner
def _gaussian_reach(reach):
    """The gaussian's reach as DALI's arithmetic has it, an ulp or two less than `reach` for some scales.

    Its support is 4 sqrt(2) sigma with sigma = reach / (2 sqrt(2)), and its table has 64 cells: each step rounds to float32. It matters
    because the filter is not zero at its edge: a tap that falls there is in or out by the last bit. (Found by asking DALI for the weights
    of impulses at scales 1 to 13 and 1/3, 1/5, and trying the possible orders of operations.)
    """
    sigma = np.float32(np.float64(np.float32(0.5) * reach) / 1.4142135623730951)
    support = np.float32(5.656854249492381) * sigma
    return np.float32(32) / (np.float32(64) / support)


@_inner
def _fill_taps(extent, out_extent, lo, hi, taps, widen, table, entries, radius, gaussian, first, weights):
    """Taps of one axis: first source index int32[out] and normalised weights float32[out, taps]."""
    scale = np.float32((hi - lo) / out_extent)
    origin = np.float32(lo)
    reach = np.float32(radius) * widen
    before = _gaussian_reach(reach) if gaussian else reach
    begin = origin + (np.float32(0.5) * scale - np.float32(0.5) - before)
    window = np.int64(np.ceil(np.float32(2) * reach))
    steps = np.float32(entries - 1) / (np.float32(2) * reach)
    last = np.float32(entries + 1)
    for i in range(out_extent):
        center = origin + (np.float32(i) + np.float32(0.5)) * scale - np.float32(0.5)
        start = np.int64(np.ceil(np.float32(i) * scale + begin))
        base = smaller(larger(start, 0), extent - taps)
        first[i] = base
        at = i * taps
        for k in range(taps):
            weights[at + k] = np.float32(0)
        total = np.float32(0)
        for k in range(window):
            source = start + k
            position = (np.float32(source) - center + reach) * steps + np.float32(1)
            position = smaller(larger(position, np.float32(0)), last)
            cell = smaller(np.int64(position), entries)
            part = position - np.float32(cell)
            weight = table[cell] + (table[cell + 1] - table[cell]) * part
            total += weight
            weights[at + smaller(larger(source, 0), extent - 1) - base] += weight
        total = np.float32(1) / total
        for k in range(taps):
            weights[at + k] *= total


# Head of the tables in scratch (int64 each): per axis (depth, height, width) address of first indices, address of weights, taps; then the
# address of the free scratch behind the tables.
_HEAD_BYTES = 128


@compiled(3)
def tap_tables(context, sample, scratch):
    """Fill the tap tables of a sample's three axes at `scratch`, behind a head that says where they are."""
    record = load_i64(context + 16) + 88 * sample
    free = scratch + _HEAD_BYTES
    for axis in range(3):
        extent = load_i64(record + 8 + 8 * axis)
        out_extent = load_i64(record + 40 + 8 * axis)
        interval = view_f64(load_i64(context + 24) + 48 * sample + 16 * axis, 2)
        lo = interval[0]
        hi = interval[1]
        kind = load_i64(record + 64) if out_extent < abs(hi - lo) else load_i64(record + 72)
        description = view_i32(load_i64(context + 40) + 12 * kind, 3)
        taps, widen = _count_taps(extent, out_extent, lo, hi, kind, load_i64(record + 80), description[2])
        weights_at = free + ((4 * out_extent + 63) & -64)
        first = view_i32(free, out_extent)
        weights = view_f32(weights_at, out_extent * taps)
        if kind == NN:
            _fill_nearest(extent, out_extent, lo, hi, axis != 2, first, weights)
        else:
            table = view_f32(load_i64(context + 32) + 4 * description[0], description[1] + 2)
            _fill_taps(extent, out_extent, lo, hi, taps, widen, table, description[1], description[2], kind == GAUSSIAN, first, weights)
        store_i64(scratch + 24 * axis, free)
        store_i64(scratch + 24 * axis + 8, weights_at)
        store_i64(scratch + 24 * axis + 16, taps)
        free = weights_at + ((4 * out_extent * taps + 63) & -64)
    store_i64(scratch + 72, free)
    return 0


# ------------------------------------------------------------------------------------------------------------ rows: weighted sums


@cache
def _row_blend(dtype: str) -> Any:
    """``blend(target, source, stride, weights, taps, count)``: float32 target[count] = sum of `taps` weighted rows of `dtype`."""
    view = view_of(dtype)

    @contracted
    def blend(target, source, stride, weights, taps, count):
        out = view_f32(target, count)
        weight = view_f32(weights, taps)
        # Windows often begin or end with a weight of zero.
        begin = 0
        end = taps
        while end - begin > 1 and weight[begin] == 0:
            begin += 1
        while end - begin > 1 and weight[end - 1] == 0:
            end -= 1
        a = view(source + begin * stride, count)
        wa = weight[begin]
        left = end - begin
        if left == 1:
            for i in range(count):
                out[i] = wa * np.float32(a[i])
            return
        b = view(source + (begin + 1) * stride, count)
        wb = weight[begin + 1]
        if left == 2:
            for i in range(count):
                out[i] = wa * np.float32(a[i]) + wb * np.float32(b[i])
            return
        c = view(source + (begin + 2) * stride, count)
        wc = weight[begin + 2]
        for i in range(count):
            out[i] = wa * np.float32(a[i]) + wb * np.float32(b[i]) + wc * np.float32(c[i])
        k = begin + 3
        while k < end:
            # Two more rows at a time; an odd last one goes with a weight of zero beside itself.
            other = smaller(k + 1, end - 1)
            a = view(source + k * stride, count)
            wa = weight[k]
            b = view(source + other * stride, count)
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

    r0..r3 are addresses of the first tap in four float32 rows, `step` the bytes between pixels, o0..o3 where results go. Four channels are
    always computed; with `exact` only three are stored, otherwise the fourth lands on the next pixel, which is written later.
    """
    element = ir.FloatType() if dtype == "float32" else ir.IntType(8 * _BYTES[dtype])

    @intrinsic
    def pixel(typingctx, r0, r1, r2, r3, weights, taps, step_bytes, o0, o1, o2, o3):
        def codegen(context, builder, signature, args):
            rows, weight, count, stride, outs = args[0:4], args[4], args[5], args[6], args[7:11]
            multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_F4, [_F4] * 3), "llvm.fmuladd.v4f32")
            sums = [cgutils.alloca_once_value(builder, _splat(0.0)) for _ in range(_ROWS)]
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

        return types.void(*[types.int64] * 11), codegen

    return pixel


@cache
def _columns(dtype: str) -> Any:
    """``columns(rows, row_bytes, left, channels, first, weights, taps, width, out, out_bytes, count)``: four rows of output.

    rows       address of four float32 rows, `row_bytes` apart, that begin at source column `left`
    out        address of the first output row, `out_bytes` apart; `count` (1..4) rows are wanted
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
        # Missing rows repeat the last one: the same values are stored twice.
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
        return njit(inline="always")(lambda value: value)
    low, high = _RANGE[dtype]
    kind = getattr(np, dtype)
    low32, high32 = np.float32(low), np.float32(high)

    @njit(inline="always")
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
    size = _BYTES[out_dtype]

    @contracted
    def nearest(source, row_bytes, first_y, first_x, height, width, channels, out_at):
        rows = view_i32(first_y, height)
        columns = view_i32(first_x, width)
        for y in range(height):
            row = view_in(source + rows[y] * row_bytes, row_bytes)
            out = view_out(out_at + y * width * channels * size, width * channels)
            for x in range(width):
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
        first_y = load_i64(head + 24)
        weights_y = load_i64(head + 32)
        taps_y = load_i64(head + 40)
        first_x = load_i64(head + 48)
        weights_x = load_i64(head + 56)
        taps_x = load_i64(head + 64)
        in_width = load_i64(record + 24)
        channels = load_i64(record + 32)
        height = load_i64(record + 48)
        width = load_i64(record + 56)
        row_bytes = in_width * channels * in_size
        if taps_y == 1 and taps_x == 1:
            nearest(source, row_bytes, first_y, first_x, height, width, channels, out)
            return
        first = view_i32(first_x, width)
        # First source indices are monotonous, upwards or (flipped) downwards.
        left = smaller(first[0], first[width - 1])
        count = (larger(first[0], first[width - 1]) + taps_x - left) * channels
        buffer_bytes = (4 * count + 16 + 63) & -64
        rows = view_i32(first_y, height)
        out_bytes = width * channels * out_size
        y = 0
        while y < height:
            wanted = smaller(_ROWS, height - y)
            for r in range(wanted):
                at = source + rows[y + r] * row_bytes + left * channels * in_size
                blend(buffer + r * buffer_bytes, at, row_bytes, weights_y + 4 * taps_y * (y + r), taps_y, count)
            columns(buffer, buffer_bytes, left, channels, first_x, weights_x, taps_x, width, out + y * out_bytes, out_bytes, wanted)
            y += wanted

    return plane


@cache
def image_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for samples without a resized depth axis (depth counts as outer); see the table at the top."""
    plane = _plane(in_dtype, out_dtype)
    in_size, out_size = _BYTES[in_dtype], _BYTES[out_dtype]

    @step_variant(in_dtype, out_dtype)
    def resize_image(context, sample, thread):
        record = load_i64(context + 16) + 88 * sample
        source = load_i64(load_i64(context) + 8 * sample)
        out = load_i64(load_i64(context + 8) + 8 * sample)
        scratch = load_i64(thread) + load_i64(context + 48)
        in_bytes = load_i64(record + 16) * load_i64(record + 24) * load_i64(record + 32) * in_size
        out_bytes = load_i64(record + 48) * load_i64(record + 56) * load_i64(record + 32) * out_size
        if in_bytes == 0 or out_bytes == 0:
            return 0
        call3(load_i64(context + 56), context, sample, scratch)
        for _ in range(load_i64(record) * load_i64(record + 8)):
            plane(source, out, record, scratch, load_i64(scratch + 72))
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
        record = load_i64(context + 16) + 88 * sample
        source = load_i64(load_i64(context) + 8 * sample)
        out = load_i64(load_i64(context + 8) + 8 * sample)
        scratch = load_i64(thread) + load_i64(context + 48)
        count = load_i64(record + 16) * load_i64(record + 24) * load_i64(record + 32)
        out_bytes = load_i64(record + 48) * load_i64(record + 56) * load_i64(record + 32) * out_size
        in_depth = load_i64(record + 8)
        depth = load_i64(record + 40)
        if count == 0 or out_bytes == 0 or in_depth == 0:
            return 0
        call3(load_i64(context + 56), context, sample, scratch)
        first = view_i32(load_i64(scratch), depth)
        weights = load_i64(scratch + 8)
        taps = load_i64(scratch + 16)
        blended = load_i64(scratch + 72)
        buffer = blended + ((4 * count + 63) & -64)
        for _ in range(load_i64(record)):
            for z in range(depth):
                blend(blended, source + first[z] * count * in_size, count * in_size, weights + 4 * taps * z, taps, count)
                plane(blended, out, record, scratch, buffer)
                out += out_bytes
            source += in_depth * count * in_size
        return 0

    return resize_volume


# ----------------------------------------------------------------------------------------------------------------------- planning


# Table of fill_records (int64 each): 0 samples, 1 ndim, 2 first spatial axis, 3 spatial axes, 4 input shapes, 5 output extents
# int64[samples, axes], 6 bytes from a sample's extents to the next one's (0: all have the same), 7 and 8 source intervals lo and hi
# float64[samples, axes] (0: the whole input), 9 and 10 filters int64[samples], 11 bytes from one filter to the next, 12 antialias,
# 13 filter descriptions; filled in: 14 records, 15 intervals, 16 output shapes, 17 whether depth is resampled, 18 scratch for planes.


@compiled(1, brief=True)
def fill_records(table):
    """What :class:`Resampling` needs to know of a batch; gives the scratch that a thread needs for any sample, but for planes."""
    ndim, first, axes = load_i64(table + 8), load_i64(table + 16), load_i64(table + 24)
    shape, extents, lo, hi = load_i64(table + 32), load_i64(table + 40), load_i64(table + 56), load_i64(table + 64)
    filters, filters_step = load_i64(table + 72), load_i64(table + 88)
    record, interval, out_shape = load_i64(table + 112), load_i64(table + 120), load_i64(table + 128)
    needed = 0
    for i in range(load_i64(table)):
        small, large = load_i64(filters + filters_step * i), load_i64(load_i64(table + 80) + filters_step * i)
        descriptions = load_i64(table + 104)
        radius = np.int64(larger(load_i32(descriptions + 12 * small + 8), load_i32(descriptions + 12 * large + 8)))
        outer, channels, scratch = 1, 1, 64 + _HEAD_BYTES
        for k in range(ndim):
            extent = load_i64(shape + 8 * k)
            store_i64(out_shape + 8 * k, extent)
            if k < first:
                outer *= extent
            elif k >= first + axes:
                channels *= extent
        for axis in range(3):
            k = axis - (3 - axes)
            extent, out, begin, end = 1, 1, 0.0, 1.0
            if k >= 0:
                extent, out = load_i64(shape + 8 * (first + k)), load_i64(extents + 8 * k)
                begin, end = 0.0, np.float64(extent)
                if lo != 0:
                    begin, end = load_f64(lo + 8 * k), load_f64(hi + 8 * k)
                store_i64(out_shape + 8 * (first + k), out if extent > 0 else 0)
            store_i64(record + 8 + 8 * axis, extent)
            store_i64(record + 40 + 8 * axis, out)
            store_f64(interval + 16 * axis, begin)
            store_f64(interval + 16 * axis + 8, end)
            if axis == 0 and (extent != out or begin != 0 or end != extent):
                store_i64(table + 136, 1)
            # At most 2 radius widen + 2 taps for each output, and out * widen is the larger one of output and source length.
            scratch += 12 * out + 8 * radius * (larger(np.int64(abs(end - begin)), out) + 2) + 128
        store_i64(record, outer)
        store_i64(record + 32, channels)
        store_i64(record + 64, small)
        store_i64(record + 72, large)
        store_i64(record + 80, load_i64(table + 96))
        row = 4 * load_i64(record + 24) * channels
        needed = larger(needed, scratch + _ROWS * (row + 80))
        store_i64(table + 144, larger(load_i64(table + 144), row * load_i64(record + 16) + 64))
        shape, out_shape, record, interval = shape + 8 * ndim, out_shape + 8 * ndim, record + 88, interval + 48
        extents, lo, hi = extents + load_i64(table + 48), lo + 8 * axes if lo != 0 else 0, hi + 8 * axes
    return needed


class Resampling:
    """What is decided about a batch: ``shapes`` int64[samples, ndim] of the outputs, and all that :meth:`step` needs.

    shapes       int64[samples, ndim] of the inputs; axes from `first_axis` on are those of `geometry`
    geometry     see :func:`asyncdali.operators.geometry.resize_rules.geometry` (two or three axes); without `lo` and `hi` the whole input,
                 with one row of extents that of all samples
    filters      int64[2, samples] or [2, 1] for all samples: DALIInterpType where an axis shrinks and where it does not
    """

    def __init__(self, shapes: np.ndarray, first_axis: int, geometry: Geometry, filters: np.ndarray, antialias: bool):
        count, ndim = shapes.shape
        axes = geometry.extents.shape[1]
        shapes, extents = np.ascontiguousarray(shapes, np.int64), np.ascontiguousarray(geometry.extents, np.int64)
        memory = np.empty(count * (len(RECORD_FIELDS) + 6 + ndim), np.int64)
        records_at = address_of(memory)
        intervals_at = records_at + 8 * count * len(RECORD_FIELDS)
        self.shapes = memory[count * (len(RECORD_FIELDS) + 6) :].reshape(count, ndim)
        lo_at = hi_at = 0
        if geometry.lo is not None and geometry.hi is not None:
            lo, hi = np.ascontiguousarray(geometry.lo, np.float64), np.ascontiguousarray(geometry.hi, np.float64)
            lo_at, hi_at = address_of(lo), address_of(hi)
        filters_at = address_of(filters)
        table = np.array(
            [
                count, ndim, first_axis, axes, address_of(shapes), address_of(extents), 8 * axes if len(extents) > 1 else 0, lo_at, hi_at,
                filters_at, filters_at + filters.strides[0], filters.strides[1] if filters.shape[1] > 1 else 0, antialias,
                _DESCRIPTIONS_AT, records_at, intervals_at, intervals_at + 48 * count, 0, 0,
            ],
            np.int64,
        )  # fmt: skip
        self._scratch = fill_records(address_of(table))
        self._volume = axes == 3 and bool(table[17])
        if self._volume:
            self._scratch += int(table[18])
        self._memory, self._records_at, self._intervals_at = memory, records_at, intervals_at

    def step(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> Step:
        """The step for samples at addresses that are known when it runs; uint8, int16, uint16 or float32 to the same, or to float32."""
        compiled = _resampling(np.dtype(in_dtype), np.dtype(out_dtype), self._volume)
        table = np.array(
            [
                address_of(in_addresses), address_of(out_addresses), self._records_at, self._intervals_at, _TABLES_AT, _DESCRIPTIONS_AT, 0,
                tap_tables.address,
            ],
            np.int64,
        )  # fmt: skip
        keep = (in_addresses, out_addresses, self._memory)
        step = Step(compiled.address, table, no_explanation, self._scratch, _SCRATCH_FIELD, keep)
        step.launches = lambda: self._launches(in_addresses, out_addresses, in_dtype, out_dtype)
        return step

    def _launches(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> list[Launch]:
        """Tap tables of all axes in one launch, pixels in a second."""
        count, fields = len(in_addresses), len(RECORD_FIELDS)
        records = self._memory[: count * fields].reshape(count, fields)
        intervals = self._memory[count * fields : count * (fields + 6)].view(np.float64).reshape(count, 3, 2)
        axes, words = _tap_places(records, intervals)
        unstored = (in_addresses, 0, records, intervals, _TABLES, _DESCRIPTIONS, axes, Scratch(4 * words), count)
        context = (in_addresses, out_addresses, *unstored[2:])
        channels = int(records[0, 4]) if count and (records[:, 4] == records[0, 4]).all() and records[0, 4] <= 4 else 0
        types = ("IN", element_type(in_dtype)), ("OUT", element_type(out_dtype)), ("VOLUME", int(self._volume)), ("CHANNELS", channels)
        rows = int((records[:, 0] * records[:, 5] * records[:, 6]).max(initial=0))
        offers = None
        if channels and not self._volume and (records[:, 2] * records[:, 3] > 0).all():
            macros = ("RESIZED_IN", element_type(in_dtype)), ("CHANNELS", channels)
            offers = Pixels("resized", out_addresses, unstored, macros)
        return [
            Launch(Kernel(_SOURCE, "taps", types), unstored, (3, grid_of(1, count)[1])),
            Launch(Kernel(_SOURCE, "resize", types), context, tile_grid(rows, count), offers=offers),
        ]


_TILE_ROWS, _TILES = 8, 2


def tile_grid(rows: int, samples: int) -> tuple[int, int]:
    """A grid for kernels that make tiles of a resized picture (resize.cuh): a block makes several, because it looks up much at first."""
    return grid_of(-(-rows // (_TILE_ROWS * _TILES)), samples, 1)


def _tap_places(records: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, int]:
    """Where the tap tables of each axis begin, int64[samples, 3, 3]: first indices, weights (in words), taps; and the words of all."""
    extents, outs = records[:, 1:4], records[:, 5:8]
    length = np.abs(intervals[:, :, 1] - intervals[:, :, 0])
    kinds = np.where(outs < length, records[:, 8:9], records[:, 9:10])
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (length / outs).astype(np.float32)
    widen = np.where((records[:, 10:11] != 0) & (scale > 1), scale, np.float32(1))
    wanted = np.ceil(np.float32(2) * _DESCRIPTIONS[kinds, 2].astype(np.float32) * widen).astype(np.int64)
    taps = np.where(kinds == NN, 1, np.minimum(wanted, extents))
    sizes = np.stack([outs, outs * taps], axis=2).reshape(-1)
    ends = np.cumsum(sizes)
    axes = np.empty((len(records), 3, 3), np.int64)
    axes[:, :, :2] = (ends - sizes).reshape(len(records), 3, 2)
    axes[:, :, 2] = taps
    return axes, int(ends[-1]) if len(ends) else 0


@cache
def _resampling(in_dtype: np.dtype, out_dtype: np.dtype, volume: bool) -> Compiled:
    return (volume_step if volume else image_step)(in_dtype.name, out_dtype.name)
