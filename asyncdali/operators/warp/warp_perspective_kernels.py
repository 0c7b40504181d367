"""Compiled step of ``experimental.warp_perspective``: bytes, linear, with the arithmetic of OpenCV's warpPerspective (version 5).

Sixteen pixels are computed together. If all of their taps lie inside of the image, each row of taps is one word of eight bytes, and bytes
are taken apart by shuffles. All other pixels are computed one by one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import (
    address,
    copy_bytes,
    fma32,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    local_array,
    smaller,
    store_i64,
    store_u8,
    view_f64,
    view_i64,
)
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.vectors import I8, I32, I64, call_ir, function_of, lanes, load_ir, prefetch, store_ir
from .warp_perspective_tables import PERSPECTIVE, PERSPECTIVE_RECORD

at, word = PERSPECTIVE.at, PERSPECTIVE_RECORD.word
_F = np.float32

CHANNELS = (1, 3, 4)
"""Numbers of channels for which two rows of a pair of pixels fit into words. OpenCV computes two channels with another arithmetic."""
_LANES = 16
_REFLECT_101, _WRAP, _REPLICATE, _CONSTANT = 0, 2, 3, 4  # As in borders.cuh; 1 is "reflect".
_FAR = _F(1 << 24)  # Positions are clamped to -_FAR.._FAR.
_f32, _i32 = lanes("float32", _LANES), lanes("int32", _LANES)
_splat, _fma, _floor, _larger, _smaller, _store = _f32.splat, _f32.fma, _f32.floor, _f32.larger, _f32.smaller, _f32.store
_load, _whole, _store_whole = _f32.load, _f32.converted(_i32), _i32.store
_splat_whole, _choose_whole, _total = _i32.splat, _i32.choose, _i32.total
_AHEAD = 8  # Rows of the input that are prefetched: a tilted row of the output reads many rows, which processors do not prefetch.
_BLOCK = 256  # Pixels whose words are loaded before they are blended.
_PLANE = 4 * _BLOCK  # Bytes of a block's numbers.
_numbers, _places, _words = local_array(np.float32, 2 * _BLOCK), local_array(np.int32, 2 * _LANES), local_array(np.int64, 2 * _BLOCK)
_spare, _map, _parts, _steps = (
    local_array(kind, count) for kind, count in ((np.uint8, 4 * _LANES), (np.float32, 9), (np.float32, 3), (np.float32, _LANES))
)


@inlined
def _inside(index, extent, border):
    """The source of the pixel `index`, or -1 for the fill value."""
    if 0 <= index < extent:
        return index
    if border == _CONSTANT:
        return np.int64(-1)
    if border == _REPLICATE:
        return np.int64(0) if index < 0 else extent - 1
    if border == _REFLECT_101:
        if extent == 1:
            return np.int64(0)
        period = 2 * (extent - 1)
        index %= period
        return period - index if index >= extent else index
    period = extent if border == _WRAP else 2 * extent
    index %= period
    return index if index < extent else period - 1 - index


@inlined
def _bounded(x):
    """A whole float as an integer. Positions that do not fit into int32 are far outside."""
    return np.int64(x) if x >= _F(-2147483648.0) and x < _F(2147483648.0) else np.int64(-2147483648)


@inlined
def _tap(pixels, row, column, width, channels, c, fill):
    if row < 0 or column < 0:
        return _F(np.uint8(load_f32(fill + 4 * c)))
    return _F(load_u8(pixels + (row * width + column) * channels + c))


@inlined
def _pixel(pixels, u, v, height, width, channels, border, fill, out):
    """One pixel, with every tap checked."""
    left, above = np.floor(u), np.floor(v)
    across, below = _F(u - left), _F(v - above)
    column, row = _bounded(left), _bounded(above)
    if border == _CONSTANT and (column < -1 or column >= width or row < -1 or row >= height):
        for c in range(channels):
            store_u8(out + c, np.uint8(load_f32(fill + 4 * c)))
        return
    x, right = _inside(column, width, border), _inside(column + 1, width, border)
    y, lower = _inside(row, height, border), _inside(row + 1, height, border)
    for c in range(channels):
        a, b = _tap(pixels, y, x, width, channels, c, fill), _tap(pixels, y, right, width, channels, c, fill)
        d, e = _tap(pixels, lower, x, width, channels, c, fill), _tap(pixels, lower, right, width, channels, c, fill)
        first, second = fma32(across, _F(b - a), a), fma32(across, _F(e - d), d)
        found = np.rint(fma32(below, _F(second - first), first))
        # Written this way, a position without a number gives 0.
        store_u8(out + c, np.uint8(np.int32(found)) if found > _F(0) and found < _F(255) else np.uint8(255 if found >= _F(255) else 0))


@cache
def _blender(channels: int) -> Any:
    """``blend(words, across, below, out)``: 16 pixels from their words of the upper row, then those of the lower row."""
    narrow, wide, real = (ir.VectorType(kind, _LANES) for kind in (I8, I32, ir.FloatType()))
    block = ir.VectorType(I8, 64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words, across, below, out = args
        blocks = [load_ir(builder, builder.add(words, I64(64 * k)), block) for k in range(4)]
        part, rest = (load_ir(builder, place, real) for place in (across, below))

        def tap(row: int, column: int, c: int) -> Any:
            places = [8 * k + channels * column + c for k in range(_LANES)]
            found = builder.shuffle_vector(blocks[2 * row], blocks[2 * row + 1], ir.Constant(ir.VectorType(I32, _LANES), places))
            return builder.uitofp(builder.zext(found, wide), real)

        def between(weight: Any, a: Any, b: Any) -> Any:
            return call_ir(builder, f"llvm.fma.v{_LANES}f32", [weight, builder.fsub(b, a), a])

        planes = []
        for c in range(channels):
            upper, lower = (between(part, tap(row, 0, c), tap(row, 1, c)) for row in range(2))
            value = call_ir(builder, f"llvm.rint.v{_LANES}f32", [between(rest, upper, lower)])
            planes.append(builder.trunc(builder.fptosi(value, wide), narrow))
        _store_planes(builder, planes, out)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 4), codegen)


def _store_planes(builder: Any, planes: list[Any], out: Any) -> None:
    """Interleave vectors of bytes, one for each channel."""
    count = len(planes)

    def joined(a: Any, b: Any) -> Any:
        size = a.type.count
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, 2 * size), list(range(2 * size))))

    if count == 1:
        store_ir(builder, planes[0], out)
        return
    both = [joined(planes[0], planes[1]), joined(planes[2], planes[-1])]
    places = [plane * _LANES + k for k in range(_LANES) for plane in range(count)]
    store_ir(builder, builder.shuffle_vector(*both, ir.Constant(ir.VectorType(I32, len(places)), places)), out)


@cache
def perspective_step(channels: int) -> Compiled:
    """The step of PERSPECTIVE for UINT8 images of one of CHANNELS, linear."""
    blend = _blender(channels)
    # Pixels are loaded as words of eight bytes, which must not cross the end of a row. So the last columns are computed one by one.
    spare_columns = -(-8 // channels)

    @inlined
    def gather(pixels, m, parts, begin, end, height, width, border, fill, out, steps, numbers, places, words):
        """Prepare pixels `begin` to `end` of a row: store weights and words of groups of 16 whose taps lie inside. Finish the other pixels.

        Returns a bit for each group that has words.
        """
        first = _load(steps)
        one, zero = _splat_whole(np.int32(1)), _splat_whole(np.int32(0))
        zero_real, before, far, near = _splat(_F(0)), _splat(_F(-1)), _splat(_FAR), _splat(_F(-_FAR))
        last_column, last_row = _splat(_F(width - spare_columns)), _splat(_F(height - 2))
        line, inside = np.int64(channels) * width, np.int64(0)
        for group in range((end - begin + _LANES - 1) // _LANES):
            x = begin + _LANES * group
            right = first + _splat(_F(x))
            w = _fma(_splat(m[6]), right, _splat(parts[2]))
            u, v = _fma(_splat(m[0]), right, _splat(parts[0])) / w, _fma(_splat(m[3]), right, _splat(parts[1])) / w
            left, above = _floor(_smaller(_larger(u, near), far)), _floor(_smaller(_larger(v, near), far))
            good = _choose_whole(left >= zero_real, one, zero) & _choose_whole(left <= last_column, one, zero)
            good = good & _choose_whole(above >= zero_real, one, zero) & _choose_whole(above <= last_row, one, zero)
            own = numbers + 4 * _LANES * group
            if _total(good) != _LANES:
                out_of_rows = _choose_whole(above < before, one, zero) | _choose_whole(above >= _splat(_F(height)), one, zero)
                out_of_columns = _choose_whole(left < before, one, zero) | _choose_whole(left >= _splat(_F(width)), one, zero)
                if border == _CONSTANT and _total(out_of_rows | out_of_columns) == _LANES:
                    for k in range(smaller(_LANES, end - x)):
                        for c in range(channels):
                            store_u8(out + channels * (x + k) + c, np.uint8(load_f32(fill + 4 * c)))
                    continue
                _store(own, u)
                _store(own + _PLANE, v)
                for k in range(smaller(_LANES, end - x)):
                    u_k, v_k = load_f32(own + 4 * k), load_f32(own + _PLANE + 4 * k)
                    _pixel(pixels, u_k, v_k, height, width, channels, border, fill, out + channels * (x + k))
                continue
            inside |= np.int64(1) << group
            _store(own, u - left)
            _store(own + _PLANE, v - above)
            _store_whole(places, _whole(left))
            _store_whole(places + 4 * _LANES, _whole(above))
            to = words + 16 * _LANES * group
            for k in range(_LANES):
                column, row = np.int64(load_i32(places + 4 * k)), np.int64(load_i32(places + 4 * (_LANES + k)))
                source = pixels + row * line + np.int64(channels) * column
                store_i64(to + 8 * k, load_i64(source))
                store_i64(to + 8 * (_LANES + k), load_i64(source + line))
                if k % 8 == 0:
                    prefetch(source + _AHEAD * line)
        return inside

    @inlined
    def finish(inside, begin, end, out, numbers, words, spare):
        """The pixels of the groups in `inside`. Their words were stored long enough ago to be in the cache."""
        for group in range((end - begin + _LANES - 1) // _LANES):
            if not inside >> group & 1:
                continue
            x, own, source = begin + _LANES * group, numbers + 4 * _LANES * group, words + 16 * _LANES * group
            if x + _LANES <= end:
                blend(source, own, own + _PLANE, out + channels * x)
            else:
                blend(source, own, own + _PLANE, spare)
                copy_bytes(out + channels * x, spare, channels * (end - x))

    @step_variant(channels)
    def warp(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, width, rows, columns = r[word.height], r[word.width], r[word.rows], r[word.columns]
        images, border = r[word.frames] * r[word.planes], load_i64(context + at.border)
        source, target = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        fill = load_i64(context + at.fills) + 16 * sample
        m, parts, counting = _map(), _parts(), _steps()
        for k in range(_LANES):
            counting[k] = _F(k)
        steps = address(counting)
        numbers, places, words, spare = address(_numbers()), address(_places()), address(_words()), address(_spare())
        for image in range(images):
            frame, plane = image // r[word.planes], image % r[word.planes]
            own = view_f64(load_i64(context + at.maps) + 72 * (r[word.first] + frame), 9)
            for k in range(9):
                m[k] = _F(own[k])
            pixels = source + (frame * r[word.step] * r[word.planes] + plane) * height * width * channels
            for y in range(rows):
                to, down = target + (image * rows + y) * columns * channels, _F(y)
                parts[0], parts[1] = _F(_F(m[1] * down) + m[2]), _F(_F(m[4] * down) + m[5])
                parts[2] = _F(_F(m[7] * down) + m[8])
                for begin in range(0, columns, _BLOCK):
                    end = smaller(begin + _BLOCK, columns)
                    inside = gather(pixels, m, parts, begin, end, height, width, border, fill, to, steps, numbers, places, words)
                    finish(inside, begin, end, to, numbers, words, spare)
        return 0

    return warp
