"""Decoded frames to RGB, with the pixels of swscale's most accurate conversion (bilinear chroma, 30 bits, rounding to nearest).

Chroma is enlarged to 16 times its value, without rounding: a sample counts 3/4 and its nearer neighbour 1/4 in each direction, or 1 and 1/2
where chroma is at the left pixel. Then all planes are centred at 0, so that 16 bits are enough for samples of 12 bits. The sums of products
wrap at 32 bits, as in swscale: blue of the brightest luma and chroma becomes 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import kinds
from ...compiled.intrinsics import larger, load_i64, smaller, view_of, view_u8
from ...compiled.step import compiled, inlined
from ...compiled.vectors import I8, I16, I32, I64, IntegerVectors, constant, function_of
from .frame_colour_tables import FRAMES, NARROWEST

at = FRAMES.at
_PIXELS = NARROWEST
"""Pixels per call of the conversion."""
_MATRIX = 7
_VALUE_BITS = 22
"""Bits of a sum that are dropped: 8 remain."""
_view_i16, _view_u16 = view_of(np.int16), view_of(np.uint16)


def matrix(full: bool, bits: int) -> np.ndarray:
    """int32[7] of the conversion: four pairs of 16-bit factors, what is added to a sum, the shift before, and the centre of luma twice.

    The pairs are (luma, red), (luma, red), (0, blue) and (luma, blue): the first is for red, the next two for green, the last for blue. The
    factors are those of BT.601 with 13 bits behind the point, for `full` or limited range of samples with `bits` bits.
    """
    factors = _FULL if full else _LIMITED
    luma, red, green_red, green_blue, blue = factors
    shift, centre, black = 13 - bits, 1 << (bits + 3), 0 if full else 1 << bits
    added = (((centre - black) * luma) << shift) + (1 << (_VALUE_BITS - 1))
    pairs = np.array([luma, red, luma, green_red, 0, green_blue, luma, blue], np.int16)
    words = [*pairs.view(np.int32).tolist(), added, shift, centre << 16 | centre]
    return np.array(words, np.int64).astype(np.int32)


_LIMITED = (9539, 13075, -6660, -3209, 16525)
_FULL = (8192, 11485, -5850, -2819, 14516)
"""Factors of luma, of red's difference in red and in green, of blue's difference in green and in blue."""


# ------------------------------------------------------------------------------------------------------------------- chroma


@inlined
def _bits_of(row, count):
    """The bits that occur in a row of samples of 16 bits."""
    samples, seen = _view_u16(row, count), np.uint16(0)
    for x in range(count):
        seen |= samples[x]
    return np.int64(seen)


@inlined
def _between_rows(near, other, bits, count, out):
    """Write four times a row of chroma: three parts of the `near` row, one part of the `other` one. Returns the bits that occur."""
    made, seen = _view_i16(out, count), np.uint16(0)
    if bits > 8:
        samples, others = _view_u16(near, count), _view_u16(other, count)
        for k in range(count):
            made[k] = np.int16(3 * samples[k] + others[k])
            seen |= samples[k] | others[k]
    else:
        short_samples, short_others = view_u8(near, count), view_u8(other, count)
        for k in range(count):
            made[k] = np.int16(3 * short_samples[k] + short_others[k])
    return np.int64(seen)


@inlined
def _between_columns(row, left, count, centre, out):
    """Enlarge `count` samples to twice as many. The sample before the first and the one behind the last are there, too."""
    before, own, after = _view_i16(row - 2, count), _view_i16(row, count), _view_i16(row + 2, count)
    made = _view_i16(out, 2 * count)
    if left:
        for k in range(count):
            made[2 * k] = np.int16(4 * own[k] - centre)
            made[2 * k + 1] = np.int16(2 * (own[k] + after[k]) - centre)
    else:
        for k in range(count):
            made[2 * k] = np.int16(3 * own[k] + before[k] - centre)
            made[2 * k + 1] = np.int16(3 * own[k] + after[k] - centre)


@inlined
def _chroma_row(context, plane, stride, y, scratch, out):
    """Write the chroma of row `y`, 16 times its value and centred. Returns the bits that occur in its samples."""
    halved_x, halved_y = load_i64(context + at.halved_x), load_i64(context + at.halved_y)
    count, bits = load_i64(context + at.width) >> halved_x, load_i64(context + at.bits)
    near = y >> halved_y
    other = near
    if halved_y != 0:
        last = (load_i64(context + at.height) >> 1) - 1
        other = smaller(near + 1, last) if y & 1 else larger(near - 1, 0)
    row, centre = scratch + 2, np.int16(1 << (bits + 3))
    seen = _between_rows(plane + stride * near, plane + stride * other, bits, count, row)
    if halved_x == 0:
        taken, made = _view_i16(row, count), _view_i16(out, count)
        for k in range(count):
            made[k] = np.int16(4 * taken[k] - centre)
    else:
        samples = _view_i16(scratch, count + 2)
        samples[0], samples[count + 1] = samples[1], samples[count]
        _between_columns(row, load_i64(context + at.left) != 0, count, centre, out)
    return seen


# ------------------------------------------------------------------------------------------------------------------- colours


def _word(builder: Any, address: Any, k: int) -> Any:
    return builder.load(builder.inttoptr(builder.add(address, I64(4 * k)), I32.as_pointer()), align=4)


def _make_colours(bits: int) -> Any:
    """``colours(luma, blue, red, matrix, out)``: 32 samples of luma, of 8 or 16 bits, and of two rows of int16 become RGB."""

    def codegen(context, builder, signature, args):
        luma, blue, red, matrix_at, out = args
        v = IntegerVectors(builder)
        cb, cr = (v.load(place, 0, I16, _PIXELS) for place in (blue, red))
        words = [v.spread(_word(builder, matrix_at, k), _PIXELS // 2) for k in range(_MATRIX)]
        factors, added, shift, centre = [v.cast(word, I16) for word in words[:4]], words[4], words[5], v.cast(words[6], I16)
        samples = v.load(luma, 0, I16, _PIXELS) if bits == 16 else builder.zext(v.load(luma, 0, I8, _PIXELS), cb.type)
        y = builder.sub(builder.shl(samples, constant(I16, _PIXELS, 4)), centre)
        parts: list[list[Any]] = [[], [], []]
        for half in (v.low, v.high):
            with_red, with_blue = half(y, cr), half(y, cb)
            green = builder.add(v.pair_products(with_red, factors[1]), v.pair_products(with_blue, factors[2]))
            for part, total in zip(parts, (v.pair_products(with_red, factors[0]), green, v.pair_products(with_blue, factors[3]))):
                value = builder.add(builder.shl(total, shift), added)
                part.append(builder.ashr(value, constant(I32, _PIXELS // 2, _VALUE_BITS)))
        v.store_pixels([v.packed(*part) for part in parts], out)
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 5), codegen)


_colours_8, _colours_16 = _make_colours(8), _make_colours(16)


@inlined
def _colours_row(context, luma, blue, red, out):
    """Write a row of pixels. The last block of a row overlaps the one before."""
    width, factors = load_i64(context + at.width), load_i64(context + at.matrix)
    wide = load_i64(context + at.bits) > 8
    for first in range(0, width, _PIXELS):
        x = smaller(first, width - _PIXELS)
        if wide:
            _colours_16(luma + 2 * x, blue + 2 * x, red + 2 * x, factors, out + 3 * x)
        else:
            _colours_8(luma + x, blue + 2 * x, red + 2 * x, factors, out + 3 * x)


@compiled(5)
def convert_frame(context, luma_plane, blue_plane, red_plane, out):
    """Convert the planes of a frame to uint8[height, width, 3]; `context` is a FRAMES. Samples of 8 bits are uint8, others uint16.

    Returns 0, or 1 if a sample has more bits than the format.
    """
    width, bits = load_i64(context + at.width), load_i64(context + at.bits)
    row_bytes = 2 * (width + 2)
    between = load_i64(context + at.scratch)
    blue, red = between + row_bytes, between + 2 * row_bytes
    for y in range(load_i64(context + at.height)):
        luma = luma_plane + load_i64(context + at.stride_luma) * y
        seen = _bits_of(luma, width) if bits > 8 else 0
        seen |= _chroma_row(context, blue_plane, load_i64(context + at.stride_blue), y, between, blue)
        seen |= _chroma_row(context, red_plane, load_i64(context + at.stride_red), y, between, red)
        if seen >> bits != 0:
            return 1
        _colours_row(context, luma, blue, red, out + 3 * width * y)
    return 0
