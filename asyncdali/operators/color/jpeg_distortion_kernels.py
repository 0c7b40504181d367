"""Compiled step of ``jpeg_compression_distortion``: an image after JPEG encoding (4:2:0) and decoding, bit-identical to libjpeg-turbo.

Entropy coding loses nothing and is left out. A row of units (16 rows of pixels) is encoded, transformed, quantised and transformed back
while it is in the cache. Chroma needs its neighbouring rows, so each row of units also keeps the last row of the one before.
"""

from __future__ import annotations

import numpy as np

from ...codecs.jpeg.colour import PIXELS, convert_420
from ...codecs.jpeg.forward_dct import encode_colors, transform_forward
from ...codecs.jpeg.forward_dct import quantisation as quantisation  # the operator plans with it
from ...codecs.jpeg.huffman_decoding import GROUP_BYTES
from ...codecs.jpeg.inverse_dct import transform_whole
from ...compiled.intrinsics import copy_bytes, load_i64, load_u8, smaller, store_u8, view_i64
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from .jpeg_distortion_tables import DISTORTION, DISTORTION_RECORD

at, word = DISTORTION.at, DISTORTION_RECORD.word
_thread = THREAD.at

_UNIT, _SIDE = 16, 8  # Rows of a unit and of a block.
_PLANE_TABLES = 4 * _SIDE * 2 * PIXELS  # Bytes of the tables of luma; those of chroma follow.
_FACTORS = 3 * _SIDE * 2 * PIXELS
_SMOOTHED = 3  # Chroma planes of fewer columns are not smoothed.
_EDGE = 32  # Bytes before and behind a row of decoded chroma, of which one repeats the nearest sample.
_TAIL = 3 * 2 * PIXELS  # Bytes for the last pixels of a row, padded to a group of four blocks of chroma.


@inlined
def _width_of(width):
    """Samples of a row of luma: whole groups of four blocks of chroma."""
    return (width + 2 * PIXELS - 1) // (2 * PIXELS) * (2 * PIXELS)


def scratch_bytes(width: int) -> int:
    """Scratch memory for rows of `width` pixels: offsets as in :func:`_distort`."""
    padded = -(-width // (2 * PIXELS)) * 2 * PIXELS
    return GROUP_BYTES + 64 + 2 * _TAIL + 2 * _UNIT * padded + (_UNIT + 1) * padded + 2 * (_SIDE + 1) * (padded // 2 + 2 * _EDGE)


@inlined
def _fill_tail(row, width, begin, padded, tail):
    """The pixels of a row from `begin` on; behind the border the last one is repeated."""
    copy_bytes(tail, row + 3 * begin, 3 * (width - begin))
    last = row + 3 * (width - 1)
    for x in range(width - begin, padded - begin):
        store_u8(tail + 3 * x, load_u8(last))
        store_u8(tail + 3 * x + 1, load_u8(last + 1))
        store_u8(tail + 3 * x + 2, load_u8(last + 2))


@inlined
def _encode_rows(image, height, width, top, padded, tails, luma, blue, red):
    """Compute the samples of a row of units. Below the image, the last row of luma and the last row of chroma are repeated."""
    half, whole = padded // 2, width // PIXELS * PIXELS
    for pair in range(_SIDE):
        y, own = top + 2 * pair, luma + 2 * pair * padded
        own_blue, own_red = blue + pair * half, red + pair * half
        if y >= height:
            copy_bytes(own, own - padded, padded)
            copy_bytes(own + padded, own - padded, padded)
            copy_bytes(own_blue, own_blue - half, half)
            copy_bytes(own_red, own_red - half, half)
            continue
        upper, lower = image + 3 * width * y, image + 3 * width * smaller(y + 1, height - 1)
        for x in range(0, whole, PIXELS):
            encode_colors(upper + 3 * x, lower + 3 * x, own + x, padded, own_blue + x // 2, own_red + x // 2)
        if whole == padded:
            continue
        if whole == width:  # only padding follows, whose values do not matter: repeat the last pixels
            whole -= PIXELS
        _fill_tail(upper, width, whole, padded, tails)
        _fill_tail(lower, width, whole, padded, tails + _TAIL)
        for x in range(whole, padded, PIXELS):
            tail = tails + 3 * (x - whole)
            encode_colors(tail, tail + _TAIL, own + x, padded, own_blue + x // 2, own_red + x // 2)


@inlined
def _requantise(samples, stride, rows, tables, group, out, out_stride):
    """Transform `rows` rows of samples, quantise, and transform back."""
    for y in range(0, rows, _SIDE):
        for x in range(0, stride, PIXELS):
            transform_forward(samples + y * stride + x, stride, tables, group)
            transform_whole(group, tables + _FACTORS, out + y * out_stride + x, out_stride, group + GROUP_BYTES)


@inlined
def _repeat_edges(plane, stride, columns):
    """Repeat the first and the last sample of each row of chroma."""
    for y in range(_SIDE):
        row = plane + y * stride
        store_u8(row - 1, load_u8(row))
        store_u8(row + columns, load_u8(row + columns - 1))


@inlined
def _limited(value):
    return np.uint8(0 if value < 0 else 255 if value > 255 else value)


@inlined
def _narrow_row(luma, blue, red, width, out):
    """Pixels of an image whose chroma is not smoothed."""
    for x in range(width):
        y, cb, cr = np.int64(load_u8(luma + x)), np.int64(load_u8(blue + x // 2)) - 128, np.int64(load_u8(red + x // 2)) - 128
        store_u8(out + 3 * x, _limited(y + ((91881 * cr + 32768) >> 16)))
        store_u8(out + 3 * x + 1, _limited(y + ((-22554 * cb - 46802 * cr + 32768) >> 16)))
        store_u8(out + 3 * x + 2, _limited(y + ((116130 * cb + 32768) >> 16)))


@inlined
def _wide_row(luma, blue, red, near, width, spare, out):
    """Pixels of a row; `spare` takes the last ones, because a store may write more pixels than are left."""
    whole = width // PIXELS * PIXELS
    for x in range(0, whole, PIXELS):
        convert_420(luma + x, blue + x // 2, red + x // 2, near, 0, 0, out + 3 * x)
    if whole < width:
        convert_420(luma + whole, blue + whole // 2, red + whole // 2, near, 0, 0, spare)
        copy_bytes(out + 3 * whole, spare, 3 * (width - whole))


@inlined
def _distort(image, out, height, width, tables, scratch):
    """One image."""
    padded, rows, columns = _width_of(width), (height + 1) // 2, (width + 1) // 2
    half, stride = padded // 2, padded // 2 + 2 * _EDGE
    tails = scratch + GROUP_BYTES + 64
    luma = tails + 2 * _TAIL
    blue, red = luma + _UNIT * padded, luma + _UNIT * padded + _SIDE * half
    made = luma + 2 * _UNIT * padded  # Decoded luma: the last row of the units above, then 16 rows.
    made_blue = made + (_UNIT + 1) * padded + _EDGE
    made_red = made_blue + (_SIDE + 1) * stride
    for top in range(0, height, _UNIT):
        _encode_rows(image, height, width, top, padded, tails, luma, blue, red)
        _requantise(luma, padded, _UNIT, tables, scratch, made + padded, padded)
        _requantise(blue, half, _SIDE, tables + _PLANE_TABLES, scratch, made_blue + stride, stride)
        _requantise(red, half, _SIDE, tables + _PLANE_TABLES, scratch, made_red + stride, stride)
        _repeat_edges(made_blue + stride, stride, columns)
        _repeat_edges(made_red + stride, stride, columns)
        # The last row's chroma needs the units below.
        last = height if top + _UNIT >= height else top + _UNIT - 1
        for y in range(top - 1 if top else 0, last):
            own_luma, place = made + (1 + y - top) * padded, (1 + y // 2 - top // 2) * stride
            if columns < _SMOOTHED:
                _narrow_row(own_luma, made_blue + place, made_red + place, width, out + 3 * width * y)
                continue
            near = np.int64(0)
            if y & 1:
                near = stride if y // 2 + 1 < rows else np.int64(0)
            elif y > 0:
                near = -stride
            _wide_row(own_luma, made_blue + place, made_red + place, near, width, tails, out + 3 * width * y)
        copy_bytes(made, made + _UNIT * padded, padded)
        copy_bytes(made_blue - _EDGE, made_blue - _EDGE + _SIDE * stride, stride)
        copy_bytes(made_red - _EDGE, made_red - _EDGE + _SIDE * stride, stride)


@step
def distortion_step(context, sample, thread):
    """Images or frames one after another."""
    r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
    height, width = r[word.height], r[word.width]
    source = load_i64(load_i64(context + at.inputs) + 8 * sample)
    out = load_i64(load_i64(context + at.outputs) + 8 * sample)
    tables = load_i64(context + at.tables) + 2 * _PLANE_TABLES * sample
    scratch = load_i64(thread + _thread.scratch) + load_i64(context + at.scratch)
    for frame in range(r[word.frames]):
        begin = 3 * height * width * frame
        _distort(source + begin, out + begin, height, width, tables, scratch)
    return 0


