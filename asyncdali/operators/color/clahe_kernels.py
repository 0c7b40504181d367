"""Compiled step of ``clahe``: a look-up table for each tile, then interpolation between tables. The arithmetic is OpenCV's.

Four tables surround a pixel. The tables are interleaved, so the pixel's four values are one word. RGB images are first converted to CIELAB
in the output. There the lightness is counted and replaced.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import (  # fmt: skip
    address,
    copy_bytes,
    larger,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    local_array,
    smaller,
    store_i32,
    store_u8,
    view_f32,
    view_i32,
    view_i64,
    view_u8,
    view_u32,
)
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...compiled.tables import laid_out
from ...compiled.vectors import I8, I32, IntegerVectors, function_of, lanes
from ..base import Step, no_explanation
from .clahe_launches import lab_tables
from .clahe_tables import CLAHE, CLAHE_RECORD

at, word = CLAHE.at, CLAHE_RECORD.word
_thread = THREAD.at
_F = np.float32

_VALUES = 256
_QUADS = 4 * _VALUES  # Bytes of four interleaved tables.
_BLOCK = 256  # Pixels whose values are looked up before they are interpolated.
_LANES = 16
_PLANE = 4 * _BLOCK  # Bytes of a block's integers.
_LEVELS = 4096  # Entries of the table of sRGB values.
_NEAREST = _F(3 << 22)  # From this number on, float32 represents whole numbers only.
_quads, _bytes, _bins = local_array(np.uint32, _BLOCK), local_array(np.uint8, _BLOCK), local_array(np.uint32, 2 * _VALUES)
_found = local_array(np.int32, 3 * _BLOCK)
_i32, _f32, _u8 = lanes("int32", _LANES), lanes("float32", _LANES), lanes("uint8", _LANES)
_load, _store, _splat, _smaller, _larger, _choose_whole = _i32.load, _i32.store, _i32.splat, _i32.smaller, _i32.larger, _i32.choose
_load_float, _store_bytes, _as_bytes = _f32.load, _u8.store, _i32.converted(_u8)
_splat_float, _choose, _as_float, _as_integer = _f32.splat, _f32.choose, _i32.converted(_f32), _f32.converted(_i32)


# ------------------------------------------------------------------------------------------------------------------------------- tables


@inlined
def _reflected(index, extent):
    """`index` reflected into 0..extent-1 about the border pixels, for any distance."""
    if index < extent:
        return index
    if extent == 1:
        return np.int64(0)
    period = 2 * (extent - 1)
    index %= period
    return period - index if index >= extent else index


@inlined
def _count_tile(source, apart, height, width, top, left, rows, columns, bins):
    """The histogram of a tile. Neighbouring pixels use separate histograms, so that equal ones do not wait for each other."""
    for k in range(2 * _VALUES):
        bins[k] = 0
    one = np.uint32(1)
    inner = smaller(columns, width - left) if left < width else np.int64(0)
    pairs = inner // 2
    for y in range(top, top + rows):
        row = view_u8(source + _reflected(y, height) * width * apart, (width - 1) * apart + 1)
        begin = left * apart
        for x in range(pairs):
            bins[row[begin + 2 * x * apart]] += one
            bins[_VALUES + np.int64(row[begin + (2 * x + 1) * apart])] += one
        for x in range(2 * pairs, columns):
            bins[row[_reflected(left + x, width) * apart]] += one
    for k in range(_VALUES):
        bins[k] += bins[_VALUES + k]


@inlined
def _limit_bins(bins, limit):
    """Counts above the limit are distributed evenly over all bins; the remainder goes to bins at equal distances."""
    cut = np.int64(0)
    for k in range(_VALUES):
        if bins[k] > limit:
            cut += np.int64(bins[k]) - limit
            bins[k] = limit
    share, rest = cut // _VALUES, cut % _VALUES
    for k in range(_VALUES):
        bins[k] += np.uint32(share)
    distance = larger(_VALUES // rest, 1) if rest else 1
    k = 0
    while k < _VALUES and rest > 0:
        bins[k] += np.uint32(1)
        k += distance
        rest -= 1


@inlined
def _byte_of(value):
    """Rounded, ties to even, and limited to a byte."""
    whole = np.rint(value)
    return np.uint8(np.int32(_F(0) if whole < _F(0) else _F(255) if whole > _F(255) else whole))


@inlined
def _fill_lookups(source, apart, r, across, down, lookups):
    """The table of each tile, uint8[down, across, 256]."""
    height, width, rows, columns, limit = r[word.height], r[word.width], r[word.tile_rows], r[word.tile_columns], r[word.limit]
    bins = _bins()
    scale = _F(_F(255) / _F(rows * columns))
    for tile in range(down * across):
        _count_tile(source, apart, height, width, tile // across * rows, tile % across * columns, rows, columns, bins)
        if limit:
            _limit_bins(bins, limit)
        table = view_u8(lookups + _VALUES * tile, _VALUES)
        total = np.uint32(0)
        for k in range(_VALUES):
            total += bins[k]
            table[k] = _byte_of(_F(_F(total) * scale))


# ------------------------------------------------------------------------------------------------------------------------------- pixels


@inlined
def _position(place, extent):
    """Where a pixel lies between the middles of tiles: the tile before it (-1: none), and the weight of the next one."""
    position = _F(_F(_F(place) * _F(_F(1) / _F(extent))) - _F(0.5))
    whole = np.floor(position)
    return np.int64(whole), _F(position - whole)


@inlined
def _interleave(lookups, across, down, before, quads):
    """The tables around the pixels of a row, uint8[across + 1, 256, 4]: above left, above right, below left, below right."""
    above, below = lookups + _VALUES * across * larger(before, 0), lookups + _VALUES * across * smaller(before + 1, down - 1)
    for k in range(across + 1):
        left, right = _VALUES * larger(k - 1, 0), _VALUES * smaller(k, across - 1)
        a, b = view_u8(above + left, _VALUES), view_u8(above + right, _VALUES)
        c, d = view_u8(below + left, _VALUES), view_u8(below + right, _VALUES)
        out = view_u32(quads + _QUADS * k, _VALUES)
        for v in range(_VALUES):
            out[v] = np.uint32(a[v]) | np.uint32(b[v]) << np.uint32(8) | np.uint32(c[v]) << np.uint32(16) | np.uint32(d[v]) << np.uint32(24)


@inlined
def _look_up_quads(row, apart, count, table, found):
    """The four values of each pixel."""
    if apart == 1:
        for k in range(count):
            store_i32(found + 4 * k, load_i32(table + 4 * np.int64(load_u8(row + k))))
        return
    for k in range(count):
        store_i32(found + 4 * k, load_i32(table + 4 * np.int64(load_u8(row + k * apart))))


@inlined
def _corner(quads, shift):
    """One of the four bytes of each word, as float32."""
    return _as_float((quads >> _splat(np.int32(shift))) & _splat(np.int32(255)))


@inlined
def _interpolate(found, count, weights, lower, made):
    """`count` pixels from their four values; `weights` of the right tables, `lower` of the tables below. All are addresses."""
    one, nearest = _splat_float(_F(1)), _splat_float(_NEAREST)
    below = _splat_float(lower)
    above = one - below
    for i in range(0, count, _LANES):
        quads, right = _load(found + 4 * i), _load_float(weights + 4 * i)
        left = one - right
        upper = _corner(quads, 0) * left + _corner(quads, 8) * right
        under = _corner(quads, 16) * left + _corner(quads, 24) * right
        value = upper * above + under * below
        # Adding and subtracting `nearest` rounds numbers from 0 to 255 to integers, ties to even.
        _store_bytes(made + i, _as_bytes(_as_integer((value + nearest) - nearest)))


@inlined
def _apply(source, out, apart, r, across, down, scratch):
    """Interpolate each pixel between the tables around it. `source` and `out` may be the same."""
    height, width = r[word.height], r[word.width]
    quads = scratch + _VALUES * across * down
    weights = view_f32(quads + _QUADS * (across + 1), width)
    tiles = view_i32(address(weights) + 4 * (width + _LANES), width)
    for x in range(width):
        tile, weights[x] = _position(x, r[word.tile_columns])
        tiles[x] = np.int32(tile)
    found, finished = address(_quads()), address(_bytes())
    last = np.int64(-2)
    for y in range(height):
        before, lower = _position(y, r[word.tile_rows])
        if before != last:
            _interleave(scratch, across, down, before, quads)
            last = before
        row, made = source + y * width * apart, out + y * width * apart
        for begin in range(0, width, _BLOCK):
            count = smaller(_BLOCK, width - begin)
            x = begin
            while x < begin + count:
                # Pixels up to the middle of the next tile share tables.
                tile = np.int64(tiles[x])
                end = x + 1
                while end < begin + count and tiles[end] == tile:
                    end += 1
                _look_up_quads(row + x * apart, apart, end - x, quads + _QUADS * (tile + 1), found + 4 * (x - begin))
                x = end
            _interpolate(found, count, address(weights) + 4 * begin, lower, finished)
            if apart == 1:
                copy_bytes(made + begin, finished, count)
                continue
            for k in range(count):
                store_u8(made + (begin + k) * apart, load_u8(finished + k))


# -------------------------------------------------------------------------------------------- CIELAB in integers: 8 bits of L, a and b

# A block of pixels at a time: look-ups, one after the other, then integers in vectors.


@inlined
def _descaled(value, bits):
    return (value + _splat(np.int32(1 << (bits - 1)))) >> _splat(np.int32(bits))


@inlined
def _limited(value, most):
    return _smaller(_larger(value, _splat(np.int32(0))), _splat(np.int32(most)))


@inlined
def _sum_of(x, y, z, a, b, c):
    return _splat(np.int32(a)) * x + _splat(np.int32(b)) * y + _splat(np.int32(c)) * z


@inlined
def _look_up(table, found, count):
    """Replace the integers of the three planes by entries of a table of uint16."""
    for k in range(3):
        for i in range(count):
            place = found + k * _PLANE + 4 * i
            store_i32(place, np.int32(load_u16(table + 2 * np.int64(load_i32(place)))))


def _interleave_ir(context, builder, signature, args):
    planes, out = args
    v = IntegerVectors(builder)
    narrow = ir.VectorType(I8, _LANES)
    first, second, third = (builder.trunc(v.load(planes, k * _PLANE, I32, _LANES), narrow) for k in range(3))
    two = v.pick(first, second, list(range(2 * _LANES)))
    more = v.pick(third, third, [k % _LANES for k in range(2 * _LANES)])
    v.store(v.pick(two, more, [plane * _LANES + k for k in range(_LANES) for plane in range(3)]), out, 0)
    return context.get_dummy_value()


_interleave_pixels = function_of(kinds.void(kinds.int64, kinds.int64), _interleave_ir)


@inlined
def _store_pixels(found, count, pixels):
    """The low bytes of the three planes, interleaved."""
    whole = count - count % _LANES
    for i in range(0, whole, _LANES):
        _interleave_pixels(found + 4 * i, pixels + 3 * i)
    for i in range(whole, count):
        pixel, source = pixels + 3 * i, found + 4 * i
        store_u8(pixel, load_u8(source))
        store_u8(pixel + 1, load_u8(source + _PLANE))
        store_u8(pixel + 2, load_u8(source + 2 * _PLANE))


@inlined
def _to_lab(source, out, count, tables, found):
    """RGB to L, a and b."""
    linear = load_i64(tables + at.linear)
    for begin in range(0, count, _BLOCK):
        some = smaller(_BLOCK, count - begin)
        for i in range(some):
            pixel, target = source + 3 * (begin + i), found + 4 * i
            store_i32(target, np.int32(load_u16(linear + 2 * np.int64(load_u8(pixel)))))
            store_i32(target + _PLANE, np.int32(load_u16(linear + 2 * np.int64(load_u8(pixel + 1)))))
            store_i32(target + 2 * _PLANE, np.int32(load_u16(linear + 2 * np.int64(load_u8(pixel + 2)))))
        for i in range(0, some, _LANES):
            first = found + 4 * i
            red, green, blue = _load(first), _load(first + _PLANE), _load(first + 2 * _PLANE)
            _store(first, _descaled(_sum_of(red, green, blue, 1777, 1541, 778), 12))
            _store(first + _PLANE, _descaled(_sum_of(red, green, blue, 871, 2929, 296), 12))
            _store(first + 2 * _PLANE, _descaled(_sum_of(red, green, blue, 73, 448, 3575), 12))
        _look_up(load_i64(tables + at.roots), found, some)
        for i in range(0, some, _LANES):
            first = found + 4 * i
            x, y, z = _load(first), _load(first + _PLANE), _load(first + 2 * _PLANE)
            middle = _splat(np.int32(128 << 15))
            _store(first, _limited(_descaled(_splat(np.int32(296)) * y - _splat(np.int32(1336934)), 15), 255))
            _store(first + _PLANE, _limited(_descaled(_splat(np.int32(500)) * (x - y) + middle, 15), 255))
            _store(first + 2 * _PLANE, _limited(_descaled(_splat(np.int32(200)) * (y - z) + middle, 15), 255))
        _store_pixels(found, some, out + 3 * begin)


@inlined
def _light_of(root):
    """Light of a root with 14 bits."""
    # Divide by 841 and truncate. The factor 1 / 841 is rounded; adding a half prevents a result that is too small by 1.
    scaled = _as_float(root * _splat(np.int32(108)))
    half = _choose(scaled < _splat_float(_F(0)), _splat_float(_F(-0.5)), _splat_float(_F(0.5)))
    dark = _as_integer((scaled + half) * _splat_float(_F(1 / 841))) - _splat(np.int32(290))
    bits = _splat(np.int32(14))
    return _choose_whole(root <= _splat(np.int32(3390)), dark, (root * root >> bits) * root >> bits)


@inlined
def _from_lab(pixels, count, tables, found):
    """L, a and b to RGB, in place."""
    luminances = load_i64(tables + at.luminances)
    for begin in range(0, count, _BLOCK):
        some = smaller(_BLOCK, count - begin)
        for i in range(some):
            pixel, target = pixels + 3 * (begin + i), found + 4 * i
            store_i32(target, load_i32(luminances + 4 * np.int64(load_u8(pixel))))  # two halves: the luminance, and its root
            store_i32(target + _PLANE, np.int32(load_u8(pixel + 1)))
            store_i32(target + 2 * _PLANE, np.int32(load_u8(pixel + 2)))
        for i in range(0, some, _LANES):
            first = found + 4 * i
            both, a, b = _load(first), _load(first + _PLANE), _load(first + 2 * _PLANE)
            y, root = both & _splat(np.int32(0xFFFF)), both >> _splat(np.int32(16))
            across = (_splat(np.int32(5 * 53687)) * a + _splat(np.int32(128))) >> _splat(np.int32(13))
            along = (_splat(np.int32(41943)) * b + _splat(np.int32(16))) >> _splat(np.int32(9))
            x, z = _light_of(root + across - _splat(np.int32(4194))), _light_of(root - along + _splat(np.int32(10484)))
            _store(first, _limited(_descaled(_sum_of(x, y, z, 12615, -6296, -2223), 14), _LEVELS - 1))
            _store(first + _PLANE, _limited(_descaled(_sum_of(x, y, z, -3773, 7684, 185), 14), _LEVELS - 1))
            _store(first + 2 * _PLANE, _limited(_descaled(_sum_of(x, y, z, 217, -836, 4715), 14), _LEVELS - 1))
        _look_up(load_i64(tables + at.srgb), found, some)
        _store_pixels(found, some, pixels + 3 * begin)


# -------------------------------------------------------------------------------------------------------------------------------- step


@step
def clahe_step(context, sample, thread):
    """Equalise one image."""
    r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    source = load_i64(load_i64(context + at.inputs) + 8 * sample)
    out = load_i64(load_i64(context + at.outputs) + 8 * sample)
    channels, pixels = r[word.channels], r[word.height] * r[word.width]
    across, down = load_i64(context + at.tiles_x), load_i64(context + at.tiles_y)
    scratch = load_i64(thread + _thread.scratch) + load_i64(context + at.scratch)
    if pixels == 0:
        return 0
    if channels == 3 and load_i64(context + at.lightness) != 0:
        found = address(_found())
        _to_lab(source, out, pixels, context, found)
        _fill_lookups(out, 3, r, across, down, scratch)
        _apply(out, out, 3, r, across, down, scratch)
        _from_lab(out, pixels, context, found)
        return 0
    for channel in range(channels):
        _fill_lookups(source + channel, channels, r, across, down, scratch)
        _apply(source + channel, out + channel, channels, r, across, down, scratch)
    return 0


def make_clahe_step(
    in_addresses: np.ndarray, out_addresses: np.ndarray, records: np.ndarray, tiles: tuple[int, int], lightness: bool
) -> Step:
    """The step for a batch of CLAHE_RECORDs; `tiles` along x and y."""
    across, down = tiles
    entries = CLAHE.entries(
        inputs=in_addresses, outputs=out_addresses, records=records, tiles_x=across, tiles_y=down, lightness=lightness, scratch=0,
        **lab_tables(), samples=len(records),
    )  # fmt: skip
    table, keep = laid_out(entries)
    widest = int(records[:, word.width].max(initial=0))
    scratch = _VALUES * across * down + _QUADS * (across + 1) + 8 * (widest + _LANES)
    return Step(clahe_step.address, table, no_explanation, scratch, CLAHE.word.scratch, keep)
