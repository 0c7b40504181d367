"""Compiled steps of ``rotate``: inverse affine warp of images, sequences and volumes, nearest or linear.

For every output row, the span of pixels whose taps all lie inside the source is computed, so the inner loop needs no bounds checks.
Pixels at the source's edge go one by one through :func:`_edge`. With a fill value, everything further out is filled. Values are
interpolated in float32; integers are rounded half away from zero.

Positions are DALI's, to the last bit. A row starts at ``(map[3] + map[0] / 2) + map[1] * (y + .5)``. Each position in the row is the one
before it plus ``map[0]``, rounded to float32. Every 256 pixels the sum restarts from the last starting value plus ``256 * map[0]``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...batch import Batch, storage_dtype, storage_name
from ...compiled import kinds
from ...compiled.convert_kernels import converter, view
from ...compiled.intrinsics import (
    bits_of_float,
    float_of_bits,
    larger,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    smaller,
    store_i32,
    store_u8,
    view_f32,
    view_i64,
)
from ...compiled.kinds import cgutils, intrinsic
from ...compiled.step import Compiled, contracted, inlined, pasted, step_variant
from ...compiled.vectors import prefetch
from ...device.launch import BLOCK, Kernel, Launch, element_type, grid_of
from ..base import Step, TableStep, no_explanation
from .rotate import ROTATE, ROTATE_RECORD

at, word = ROTATE.at, ROTATE_RECORD.word
_MAP_BYTES = 3 * 4 * 4
_RUN = 256
"""Pixels of a row whose positions are one running sum."""
_AHEAD, _EVERY = 8, 7
"""Rows of the input that are fetched early, at every eighth pixel: tilted rows cross many cache lines, which processors do not foresee."""
_TILE = 4096
"""Pixels that a block of the CUDA kernel computes at a time, as in rotate_kernels.cu."""
_SOURCE = Path(__file__).with_suffix(".cu")
# Spans are computed without the rounding of positions. Positions this near to the ends of a span are therefore checked one by one.
_MARGIN = 1e-3

_inline = pasted


@contracted
def _span(start, slope, low, high, begin, end):
    """The part of [begin, end) where ``low <= start + slope * x < high``."""
    if slope == 0:
        return (begin, end) if low <= start < high else (begin, begin)
    first = (low - start) / slope
    last = (high - start) / slope
    if slope < 0:
        first, last = last, first
    first = larger(np.ceil(first), float(begin))
    last = smaller(np.ceil(last), float(end))
    if not first < last:
        return begin, begin
    return np.int64(first), np.int64(last)


@_inline
def _drift(start, slope, count):
    """A bound on how far rounding can move a position of a row of `count` pixels away from ``start + slope * x``."""
    largest = larger(abs(start), abs(start + slope * count))
    return _MARGIN + (_RUN + (count >> 8)) * largest * 2.0**-23


@inlined
def advanced(x, step, count):
    """The float32 `x` after `count` additions of `step`, each rounded.

    As long as consecutive positions have the same exponent, all additions round alike. (Sums halfway between two floats round to even
    floats, and stay even.) So within one exponent, positions are an exact product apart.
    """
    while count > 0:
        a = np.float32(x + step)
        if count > 8:
            b = np.float32(a + step)
            c = np.float32(b + step)
            d = np.float32(c - b)
            kind = bits_of_float(b) >> 23
            if d == 0:
                return b
            if kind == bits_of_float(a) >> 23 and kind == bits_of_float(c) >> 23 and kind & 255 != 255:
                limit = float_of_bits((kind + (1 if (d > 0) == (b > 0) else 0)) << 23)
                more = smaller(np.int64((np.float64(limit) - np.float64(b)) / np.float64(d)) - 1, count - 2)
                if more > 0:
                    x = np.float32(np.float64(b) + np.float64(more) * np.float64(d))
                    count -= 2 + more
                    continue
        x = a
        count -= 1
    return x


_F4 = ir.VectorType(ir.FloatType(), 4)
_F8 = ir.VectorType(ir.FloatType(), 8)


def _splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count))


@cache
def _make_blend(out_dtype: str) -> Any:
    """``blend(upper, lower, fx, fy, out)``: one linear pixel of three uint8 channels; reads 8 bytes a row, writes 4 elements."""

    @intrinsic
    def blend(typingctx, upper, lower, fx, fy, out):
        def codegen(context, builder, signature, args):
            bytes8 = ir.VectorType(ir.IntType(8), 8)

            def lerp(kind, a, b, part):
                name = f"llvm.fmuladd.v{kind.count}f32"
                function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
                return builder.call(function, [builder.fsub(b, a), _splat(builder, part, kind), a])

            def row(address):
                return builder.uitofp(builder.load(builder.inttoptr(address, bytes8.as_pointer()), align=1), _F8)

            def lanes(value, first):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), 4), [first + k for k in range(4)])
                return builder.shuffle_vector(value, ir.Constant(_F8, ir.Undefined), mask)

            both = lerp(_F8, row(args[0]), row(args[1]), args[3])
            value = lerp(_F4, lanes(both, 0), lanes(both, 3), args[2])
            if out_dtype == "uint8":
                value = builder.fadd(value, ir.Constant(_F4, [0.5] * 4))
                value = builder.trunc(builder.fptosi(value, ir.VectorType(ir.IntType(32), 4)), ir.VectorType(ir.IntType(8), 4))
            builder.store(value, builder.inttoptr(args[4], value.type.as_pointer()), align=1 if out_dtype == "uint8" else 4)
            return context.get_dummy_value()

        return kinds.void(kinds.int64, kinds.int64, kinds.float32, kinds.float32, kinds.int64), codegen

    return blend


@_inline
def _offset(x, y, height, width, channels, clamp):
    """Element offset of a pixel in its plane, clamped to it; -1 outside if not `clamp`."""
    if clamp:
        return (smaller(larger(y, 0), height - 1) * width + smaller(larger(x, 0), width - 1)) * channels
    if x < 0 or y < 0 or x >= width or y >= height:
        return -1
    return (y * width + x) * channels


@cache
def make_edge(in_dtype: str, out_dtype: str) -> Any:
    """``edge(source, px, py, height, width, channels, fill, clamp, linear, out)``: one pixel of a plane, with every tap checked.

    px, py are positions: minus a half for linear, unchanged for nearest.
    """
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = converter("float32", out_dtype)

    @contracted
    def edge(source, px, py, height, width, channels, fill, clamp, linear, out):
        pixels = view_in(source, height * width * channels)
        to = view_out(out, channels)
        x, y = np.int64(np.floor(px)), np.int64(np.floor(py))
        at = _offset(x, y, height, width, channels, clamp)
        if not linear:
            for c in range(channels):
                to[c] = convert(np.float32(pixels[at + c]) if at >= 0 else fill)
            return
        right = _offset(x + 1, y, height, width, channels, clamp)
        below = _offset(x, y + 1, height, width, channels, clamp)
        across = _offset(x + 1, y + 1, height, width, channels, clamp)
        fx, fy = px - np.float32(x), py - np.float32(y)
        for c in range(channels):
            a = np.float32(pixels[at + c]) if at >= 0 else fill
            b = np.float32(pixels[right + c]) if right >= 0 else fill
            top = a + (b - a) * fx
            a = np.float32(pixels[below + c]) if below >= 0 else fill
            b = np.float32(pixels[across + c]) if across >= 0 else fill
            low = a + (b - a) * fx
            to[c] = convert(top + (low - top) * fy)

    return edge


@cache
def _make_beside(in_dtype: str, out_dtype: str) -> Any:
    """``beside(source, px, dx, py, dy, begin, end, height, width, linear, out) -> (px, py)``: pixels of three bytes that may lie outside.

    Outside, the border is repeated. There the interpolation along one axis is between equal colours, which is exact. Gives the bits of
    :func:`make_edge`, which computes the pixels inside: it interpolates along the other axis first.
    """
    edge, blend = make_edge(in_dtype, out_dtype), _make_blend("uint8")

    @contracted
    def beside(source, px, dx, py, dy, begin, end, height, width, linear, out):
        row_bytes, half, nothing = width * 3, np.float32(0.5), np.float32(0)
        shift = half if linear else nothing
        last = source + height * row_bytes - 8  # The last address that a pixel can be loaded from: 8 bytes are read.
        for i in range(begin, end):
            x, y = px - shift, py - shift
            px += dx
            py += dy
            x0, y0 = np.int64(np.floor(x)), np.int64(np.floor(y))
            column, line = smaller(larger(x0, 0), width - 1), smaller(larger(y0, 0), height - 1)
            at = source + line * row_bytes + 3 * column
            across, down = 0 <= x0 < width - 1, 0 <= y0 < height - 1
            below = at + row_bytes if down else at
            to = out + 3 * i
            if linear and ((across and down) or below > last or x - x + (y - y) != nothing):
                edge(source, x, y, height, width, 3, nothing, 1, linear, to)  # Also for positions that are not finite.
            elif not linear or not (across or down):
                store_u8(to, load_u8(at))
                store_u8(to + 1, load_u8(at + 1))
                store_u8(to + 2, load_u8(at + 2))
            else:
                blend(at, below, x - np.float32(x0) if across else nothing, y - np.float32(y0) if down else nothing, to)
        return px, py

    return beside


@cache
def _make_voxel(in_dtype: str, out_dtype: str) -> Any:
    """Like :func:`make_edge` for a voxel: ``voxel(source, px, py, pz, depth, height, width, channels, fill, clamp, linear, out)``."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert, in_size = converter("float32", out_dtype), np.dtype(in_dtype).itemsize

    @contracted
    def voxel(source, px, py, pz, depth, height, width, channels, fill, clamp, linear, out):
        plane = height * width * channels
        voxels = view_in(source, depth * plane)
        to = view_out(out, channels)
        x, y, z = np.int64(np.floor(px)), np.int64(np.floor(py)), np.int64(np.floor(pz))
        fx, fy, fz = px - np.float32(x), py - np.float32(y), pz - np.float32(z)
        one = np.float32(1)
        if linear and 0 <= x < width - 1 and 0 <= y < height - 1 and 0 <= z < depth - 1:
            gx, gy, gz = one - fx, one - fy, one - fz
            row = width * channels
            for c in range(channels):
                near = view_in(source + ((z * height + y) * row + x * channels + c) * in_size, row + channels + 1)
                far = view_in(source + (((z + 1) * height + y) * row + x * channels + c) * in_size, row + channels + 1)
                total = np.float32(0)
                total += np.float32(near[0]) * (gx * gy * gz)
                total += np.float32(near[channels]) * (fx * gy * gz)
                total += np.float32(near[row]) * (gx * fy * gz)
                total += np.float32(near[row + channels]) * (fx * fy * gz)
                total += np.float32(far[0]) * (gx * gy * fz)
                total += np.float32(far[channels]) * (fx * gy * fz)
                total += np.float32(far[row]) * (gx * fy * fz)
                total += np.float32(far[row + channels]) * (fx * fy * fz)
                to[c] = convert(total)
            return
        if linear and not clamp and fill == 0 and not (-1 <= x < width and -1 <= y < height and -1 <= z < depth):
            for c in range(channels):
                to[c] = convert(np.float32(0))
            return
        for c in range(channels):
            total = np.float32(0)
            for k in range(8 if linear else 1):
                at = _offset(x + (k & 1), y + (k >> 1 & 1), height, width, channels, clamp)
                level = z + (k >> 2)
                if clamp:
                    level = smaller(larger(level, 0), depth - 1)
                inside = at >= 0 and 0 <= level < depth
                value = np.float32(voxels[level * plane + at + c]) if inside else fill
                if linear:
                    value *= (fx if k & 1 else one - fx) * (fy if k & 2 else one - fy) * (fz if k & 4 else one - fz)
                total += value
            to[c] = convert(total)

    return voxel


@cache
def _make_inside(in_dtype: str, out_dtype: str) -> Any:
    """``inside(source, width, channels, px, dx, py, dy, begin, end, linear, out)``: pixels of a row, all taps inside the source."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = converter("float32", out_dtype)
    in_size, out_size = np.dtype(in_dtype).itemsize, np.dtype(out_dtype).itemsize
    moved_bytes = in_dtype == out_dtype and in_size == 1
    three_bytes = in_dtype == "uint8" and out_dtype in ("uint8", "float32")
    blend = _make_blend(out_dtype if three_bytes else "float32")

    @contracted
    def three(source, row_bytes, px, dx, py, dy, begin, end, out):
        half = np.float32(0.5)
        for i in range(begin, end):
            x = px - half
            y = py - half
            x0 = np.int32(x)
            y0 = np.int32(y)
            at = source + np.int64(y0) * row_bytes + np.int64(x0 * np.int32(3))
            if i & _EVERY == 0:
                prefetch(at + _AHEAD * row_bytes)
            blend(at, at + row_bytes, x - np.float32(x0), y - np.float32(y0), out + 3 * out_size * i)
            px += dx
            py += dy

    @contracted
    def three_nearest(source, row_bytes, px, dx, py, dy, begin, end, out):
        """Pixels of three bytes. Copies four bytes each; the next pixel overwrites one of them."""
        for i in range(begin, end):
            at = source + np.int64(np.int32(py)) * row_bytes + np.int64(np.int32(px)) * 3
            if i & _EVERY == 0:
                prefetch(at + _AHEAD * row_bytes)
            store_i32(out + 3 * i, load_i32(at))
            px += dx
            py += dy

    @contracted
    def inside(source, width, channels, px, dx, py, dy, begin, end, linear, out):
        row_bytes = width * channels * in_size
        if moved_bytes and not linear and channels == 3:
            three_nearest(source, row_bytes, px, dx, py, dy, begin, end, out)
            return
        if three_bytes and linear and channels == 3:
            three(source, row_bytes, px, dx, py, dy, begin, end, out)
            return
        shift = np.float32(0.5) if linear else np.float32(0)
        for i in range(begin, end):
            x = px - shift
            y = py - shift
            px += dx
            py += dy
            x0 = np.int64(np.int32(x))
            y0 = np.int64(np.int32(y))
            at = source + y0 * row_bytes + x0 * channels * in_size
            a = view_in(at, 2 * channels)
            o = view_out(out + i * channels * out_size, channels)
            if linear:
                fx = x - np.float32(x0)
                fy = y - np.float32(y0)
                b = view_in(at + row_bytes, 2 * channels)
                for c in range(channels):
                    top = np.float32(a[c]) + (np.float32(a[c + channels]) - np.float32(a[c])) * fx
                    low = np.float32(b[c]) + (np.float32(b[c + channels]) - np.float32(b[c])) * fx
                    o[c] = convert(top + (low - top) * fy)
            else:
                for c in range(channels):
                    o[c] = convert(np.float32(a[c]))

    return inside


@cache
def image_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for planes (depth 1 or frames); see ``rotate.ROTATE``. Types: what ``rotate`` accepts."""
    inside, edge = _make_inside(in_dtype, out_dtype), make_edge(in_dtype, out_dtype)
    view_out = view(out_dtype)
    convert = converter("float32", out_dtype)
    in_size, out_size = np.dtype(in_dtype).itemsize, np.dtype(out_dtype).itemsize

    beside = _make_beside(in_dtype, out_dtype)

    @_inline
    def edges(source, px, dx, py, dy, begin, end, height, width, channels, fill, clamp, linear, to):
        if in_dtype == out_dtype == "uint8" and clamp != 0 and channels == 3:
            # The last pixel is left to the loop below, because the fast one may write one byte too many.
            px, py = beside(source, px, dx, py, dy, begin, end - 1, height, width, linear, to)
            begin = larger(begin, end - 1)
        shift = np.float32(0.5) if linear else np.float32(0)
        for i in range(begin, end):
            edge(source, px - shift, py - shift, height, width, channels, fill, clamp, linear, to + i * channels * out_size)
            px += dx
            py += dy

    @_inline
    def plane(source, out, map_, height, width, channels, out_height, out_width, fill, clamp, linear):
        shift = 0.5 if linear else 0.0
        # How far taps reach to the right of a position. Three channels need one more column: their loads are wider than a pixel.
        reach = 1.0 if linear else 0.0
        columns = width - reach - (1 if channels == 3 else 0)
        dx, dy = map_[0], map_[4]
        gx, gy = np.float64(dx), np.float64(dy)
        half, run = np.float32(0.5), np.float32(_RUN)
        nothing = convert(fill)
        for y in range(out_height):
            centre = np.float32(y) + half
            fx = (map_[3] + dx * half) + map_[1] * centre
            fy = (map_[7] + dy * half) + map_[5] * centre
            px, py = np.float64(fx) - shift, np.float64(fy) - shift
            margin_x, margin_y = _drift(px, gx, out_width), _drift(py, gy, out_width)
            to = out + y * out_width * channels * out_size
            near, far = 0, out_width
            if not clamp:
                near, far = _span(px, gx, -reach - margin_x, width + margin_x, near, far)
                near, far = _span(py, gy, -reach - margin_y, height + margin_y, near, far)
            # The fast loop never computes the last column, because the loop may store one channel too many.
            begin, end = _span(px, gx, margin_x, columns - margin_x, near, smaller(far, out_width - 1))
            begin, end = _span(py, gy, margin_y, height - reach - margin_y, begin, end)
            if begin >= end:
                begin = end = far
            for first in range(0, far, _RUN):
                last = smaller(first + _RUN, far)
                if near < last:
                    at = larger(first, near)
                    stop = larger(smaller(begin, last), at)
                    px32, py32 = advanced(fx, dx, at - first), advanced(fy, dy, at - first)
                    if at < stop:
                        edges(source, px32, dx, py32, dy, at, stop, height, width, channels, fill, clamp, linear, to)
                        px32, py32 = advanced(px32, dx, stop - at), advanced(py32, dy, stop - at)
                    at, stop = stop, larger(smaller(end, last), stop)
                    if at < stop:
                        inside(source, width, channels, px32, dx, py32, dy, at, stop, linear, to)
                        px32, py32 = advanced(px32, dx, stop - at), advanced(py32, dy, stop - at)
                    edges(source, px32, dx, py32, dy, stop, last, height, width, channels, fill, clamp, linear, to)
                fx += dx * run
                fy += dy * run
            # The fill values before and after the span are written last, because the fast loop's wide stores write one element too many.
            row = view_out(to, out_width * channels)
            for i in range(near * channels):
                row[i] = nothing
            for i in range(far * channels, out_width * channels):
                row[i] = nothing

    @step_variant(in_dtype, out_dtype)
    def rotate_image(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        frames = r[word.frames] * r[word.in_depth]
        height, width, channels = r[word.in_height], r[word.in_width], r[word.channels]
        out_height, out_width = r[word.out_height], r[word.out_width]
        fill, clamp, linear = load_f32(load_i64(context + at.fill)), load_i64(context + at.clamp), load_i64(context + at.linear)
        if height * width == 0:
            clamp = 0
        for frame in range(frames):
            row = r[word.map] + frame * r[word.map_step]
            map_ = view_f32(load_i64(context + at.maps) + _MAP_BYTES * row, 12)
            plane(source, out, map_, height, width, channels, out_height, out_width, fill, clamp, linear)
            source += height * width * channels * in_size
            out += out_height * out_width * channels * out_size
        return 0

    return rotate_image


@cache
def volume_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for volumes: every voxel takes the checked path."""
    voxel = _make_voxel(in_dtype, out_dtype)
    in_size, out_size = np.dtype(in_dtype).itemsize, np.dtype(out_dtype).itemsize

    @_inline
    def volume(source, out, m, depth, height, width, channels, out_depth, out_height, out_width, fill, clamp, linear):
        shift, half, run = np.float32(0.5) if linear else np.float32(0), np.float32(0.5), np.float32(_RUN)
        for z in range(out_depth):
            for y in range(out_height):
                v, w = np.float32(y) + half, np.float32(z) + half
                first_x = (m[3] + m[0] * half) + m[1] * v + m[2] * w
                first_y = (m[7] + m[4] * half) + m[5] * v + m[6] * w
                first_z = (m[11] + m[8] * half) + m[9] * v + m[10] * w
                px, py, pz = first_x, first_y, first_z
                for x in range(out_width):
                    if x and x % _RUN == 0:
                        first_x, first_y, first_z = first_x + m[0] * run, first_y + m[4] * run, first_z + m[8] * run
                        px, py, pz = first_x, first_y, first_z
                    voxel(source, px - shift, py - shift, pz - shift, depth, height, width, channels, fill, clamp, linear, out)
                    out += channels * out_size
                    px, py, pz = px + m[0], py + m[4], pz + m[8]

    @step_variant(in_dtype, out_dtype)
    def rotate_volume(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        depth, height, width, channels = r[word.in_depth], r[word.in_height], r[word.in_width], r[word.channels]
        out_depth, out_height, out_width = r[word.out_depth], r[word.out_height], r[word.out_width]
        fill, clamp, linear = load_f32(load_i64(context + at.fill)), load_i64(context + at.clamp), load_i64(context + at.linear)
        if depth * height * width == 0:
            clamp = 0
        for frame in range(r[word.frames]):
            row = r[word.map] + frame * r[word.map_step]
            map_ = view_f32(load_i64(context + at.maps) + _MAP_BYTES * row, 12)
            volume(source, out, map_, depth, height, width, channels, out_depth, out_height, out_width, fill, clamp, linear)
            source += depth * height * width * channels * in_size
            out += out_depth * out_height * out_width * channels * out_size
        return 0

    return rotate_volume


@cache
def _representable(value: float, dtypes: tuple[np.dtype, ...]) -> float:
    """The value, rounded and saturated to each of the types in turn."""
    for dtype in map(np.dtype, dtypes):
        if dtype.kind in "iu":
            whole = np.copysign(np.floor(abs(value) + 0.5), value)  # Half away from zero.
            value = float(np.clip(np.nan_to_num(whole), np.iinfo(dtype).min, np.iinfo(dtype).max))
    return value


def make_rotate_step(
    source: Batch, output: Batch, records: np.ndarray, maps: np.ndarray, fill: float | None, linear: bool, volume: bool
) -> Step:
    """The step for a batch.

    records   ROTATE_RECORD[samples];  maps   float32[rows, 3, 4] from ``rotate_rules.inverse_maps``
    fill      value outside the source, rounded and saturated to the output's type, for linear also to the input's; None: repeat the border
    """
    in_dtype, out_dtype = storage_dtype(source.dtype), storage_dtype(output.dtype)
    value = 0.0 if fill is None else _representable(float(fill), (out_dtype, in_dtype) if linear else (out_dtype,))
    compiled = (volume_step if volume else image_step)(storage_name(source.dtype), storage_name(output.dtype))
    maps = np.ascontiguousarray(maps, np.float32)
    fill_value = np.array([value], np.float32)
    count = len(records)
    entries = ROTATE.entries(
        inputs=source.addresses, outputs=output.addresses, records=records, maps=maps, fill=fill_value,
        clamp=int(fill is None), linear=int(linear), samples=count,
    )  # fmt: skip

    def launches() -> list[Launch]:
        own = records[:, word.channels]
        channels = int(own[0]) if count and (own == own[0]).all() and own[0] <= 4 else 0
        types = ("IN", element_type(in_dtype)), ("OUT", element_type(out_dtype)), ("VOLUME", int(volume)), ("CHANNELS", channels)
        planes = records[:, word.frames] * (1 if volume else records[:, word.in_depth])
        rows, width = planes * records[:, word.out_depth] * records[:, word.out_height], records[:, word.out_width]
        pixels = rows * (width if volume else -(-width // _RUN) * _RUN)
        grid = grid_of(int(pixels.max(initial=0)), count, BLOCK if volume else _TILE)
        return [Launch(Kernel(_SOURCE, "rotate", types), entries, grid)]

    return TableStep(compiled.address, entries, no_explanation, launches=launches)
