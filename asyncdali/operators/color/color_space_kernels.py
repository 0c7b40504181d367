"""The compiled step of color_space_conversion: ``round(matrix @ (colour - before) + after)`` in float32."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...codecs.image_decoding import TO_YCBCR
from ...compiled import kinds
from ...compiled.byte_vectors import block_bytes, shuffled_ir, shuffler
from ...compiled.convert_kernels import converter
from ...compiled.intrinsics import copy_bytes, load_i64, view_f32, view_u8
from ...compiled.step import Compiled, step, step_variant
from ...compiled.vectors import I8, I16, I32, IntegerVectors, function_of, load_ir, store_ir
from ...types import DALIImageType
from .color_tables import CONVERSION, CONVERSION_RECORD

at, factor = CONVERSION.at, CONVERSION_RECORD.word  # a record of float32

_SOURCE = Path(__file__).with_name("color_space_kernels.cu")
_LUMA_BITS = 15
_WHOLE_LUMA = (9798, 19235, 3735)
_LUMA = np.array(_WHOLE_LUMA) / (1 << _LUMA_BITS)  # 0.299, 0.587, 0.114 as in OpenCV; sums of products are exact in float32.
_SCALE = 255 / 219
_FROM_YCBCR = np.linalg.inv(TO_YCBCR)
_FROM_YCBCR[0, 1] = _FROM_YCBCR[2, 2] = 0  # the exact values; the inverse has rounding errors
_OFFSET = (16, 128, 128)
_NOTHING = (0, 0, 0)
_SWAPPED = [2, 1, 0]


def coefficients(source: DALIImageType, target: DALIImageType) -> np.ndarray:
    """A CONVERSION_RECORD. Source colours are in RGB order."""
    bgr, grey, ycbcr = DALIImageType.BGR, DALIImageType.GRAY, DALIImageType.YCbCr
    matrix, before, after = np.eye(3), _NOTHING, _NOTHING
    if grey in (source, target):
        matrix = np.zeros((3, 3))
    if source == ycbcr and target == grey:
        matrix[0, 0], before = _SCALE, (16, 0, 0)
    elif target == grey:
        matrix[0] = (1, 0, 0) if source == grey else _LUMA
    elif source == grey:
        matrix[:, 0] = (1 / _SCALE, 0, 0) if target == ycbcr else (1, 1, 1)
        after = _OFFSET if target == ycbcr else _NOTHING
    elif ycbcr in (source, target) and source != target:
        matrix, before, after = (_FROM_YCBCR, _OFFSET, _NOTHING) if source == ycbcr else (TO_YCBCR, _NOTHING, _OFFSET)
    if target == bgr and source != grey:
        matrix = matrix[_SWAPPED]
    record = np.empty(CONVERSION_RECORD.words, np.float32)
    record[CONVERSION_RECORD.columns("m")] = matrix.reshape(-1)
    record[CONVERSION_RECORD.columns("before")], record[CONVERSION_RECORD.columns("after")] = before, after
    return record


@cache
def conversion_step(in_channels: int, out_channels: int) -> Compiled:
    """The step for pixels of 1 or 3 channels."""
    convert = converter("float32", "uint8")
    wide_in, wide_out = in_channels == 3, out_channels == 3

    @step_variant(in_channels, out_channels)
    def conversion(context, sample, thread):
        count = load_i64(load_i64(context + at.pixels) + 8 * sample)
        f, first = view_f32(load_i64(context + at.factors), factor.words), load_i64(context + at.first)
        m0, m1, m2 = f[factor.m_0], f[factor.m_1], f[factor.m_2]
        m3, m4, m5 = f[factor.m_3], f[factor.m_4], f[factor.m_5]
        m6, m7, m8 = f[factor.m_6], f[factor.m_7], f[factor.m_8]
        b0, b1, b2 = f[factor.before_0], f[factor.before_1], f[factor.before_2]
        a0, a1, a2 = f[factor.after_0], f[factor.after_1], f[factor.after_2]
        source = view_u8(load_i64(load_i64(context + at.inputs) + 8 * sample), in_channels * count)
        out = view_u8(load_i64(load_i64(context + at.outputs) + 8 * sample), out_channels * count)
        reverse = first != 0
        for i in range(count):
            x, y, z = np.float32(source[in_channels * i]), np.float32(0), np.float32(0)
            if wide_in:
                # Indices are constants, because LLVM makes gather instructions of others.
                y, z = np.float32(source[3 * i + 1]) - b1, np.float32(source[3 * i + 2])
                x, z = (z if reverse else x) - b0, (x if reverse else z) - b2
            else:
                x = x - b0
            out[out_channels * i] = convert(m0 * x + m1 * y + m2 * z + a0)
            if wide_out:
                out[3 * i + 1] = convert(m3 * x + m4 * y + m5 * z + a1)
                out[3 * i + 2] = convert(m6 * x + m7 * y + m8 * z + a2)
        return 0

    return conversion


# The steps below move bytes, or use integer arithmetic where `conversion_step` computes without rounding. The results are equal.

_BLOCK = block_bytes()
_SWAPPED_PIXELS = _BLOCK // 3  # Pixels per block.
_swap_block = shuffler([[3 * (k // 3) + 2 - k % 3 if k < 3 * _SWAPPED_PIXELS else k for k in range(_BLOCK)]])
_spread_block = shuffler([[(_BLOCK * part + k) // 3 for k in range(_BLOCK)] for part in range(3)])
_GREY_PIXELS = _BLOCK // 4  # Pixels computed from a block at a time.


@step
def swap_step(context, sample, thread):
    """RGB to BGR, and BGR to RGB."""
    size = 3 * load_i64(load_i64(context + at.pixels) + 8 * sample)
    source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
    done = 0
    while done + _BLOCK <= size:
        _swap_block(source + done, out + done)  # A block also writes a part of the next pixel, which the next block overwrites.
        done += 3 * _SWAPPED_PIXELS
    x, y = view_u8(source, size), view_u8(out, size)
    for i in range(done, size, 3):
        y[i], y[i + 1], y[i + 2] = x[i + 2], x[i + 1], x[i]
    return 0


@step
def spread_step(context, sample, thread):
    """Grey to RGB or BGR."""
    count = load_i64(load_i64(context + at.pixels) + 8 * sample)
    source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
    whole = count - count % _BLOCK
    for i in range(0, whole, _BLOCK):
        _spread_block(source + i, out + 3 * i)
    x, y = view_u8(source, count), view_u8(out, 3 * count)
    for i in range(whole, count):
        y[3 * i] = y[3 * i + 1] = y[3 * i + 2] = x[i]
    return 0


@step
def copy_step(context, sample, thread):
    """Copy: source and target have the same colour space."""
    size = load_i64(context + at.pixel_bytes) * load_i64(load_i64(context + at.pixels) + 8 * sample)
    copy_bytes(load_i64(load_i64(context + at.outputs) + 8 * sample), load_i64(load_i64(context + at.inputs) + 8 * sample), size)
    return 0


def _grey_block(weights: tuple[int, int, int]) -> Any:
    """``grey(source, out)``: computes `_GREY_PIXELS` pixels and reads a whole block of bytes."""
    block, wide = ir.VectorType(I8, _BLOCK), ir.VectorType(I32, _GREY_PIXELS)
    words = ir.VectorType(I16, _BLOCK // 2)
    # Interleave words 0 and 1 as bytes.
    fixed = ir.Constant(block, [1 if k % 4 == 2 else 0 for k in range(_BLOCK)])
    nothing, one = _BLOCK, _BLOCK + 2
    first_two = [place for p in range(_GREY_PIXELS) for place in (3 * p, nothing, 3 * p + 1, nothing)]
    third_and_one = [place for p in range(_GREY_PIXELS) for place in (3 * p + 2, nothing, one, nothing)]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        loaded = load_ir(builder, args[0], block)
        pairs = [builder.bitcast(shuffled_ir(builder, loaded, places, fixed), words) for places in (first_two, third_and_one)]
        half = 1 << (_LUMA_BITS - 1)
        v = IntegerVectors(builder)
        total = builder.add(v.pair_sums(pairs[0], *weights[:2]), v.pair_sums(pairs[1], weights[2], half))
        shifted = builder.lshr(total, ir.Constant(wide, [_LUMA_BITS] * _GREY_PIXELS))
        store_ir(builder, builder.trunc(shifted, ir.VectorType(I8, _GREY_PIXELS)), args[1])
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.int64), codegen)


@cache
def grey_step(reverse: bool) -> Compiled:
    """RGB (with `reverse`: BGR) to grey in integer arithmetic."""
    weights = _WHOLE_LUMA[::-1] if reverse else _WHOLE_LUMA
    w0, w1, w2 = weights
    half = 1 << (_LUMA_BITS - 1)
    grey_block = _grey_block((w0, w1, w2))

    @step_variant("grey", reverse)
    def grey(context, sample, thread):
        count = load_i64(load_i64(context + at.pixels) + 8 * sample)
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        done = 0
        while 3 * done + _BLOCK <= 3 * count:
            grey_block(source + 3 * done, out + done)
            done += _GREY_PIXELS
        x, y = view_u8(source, 3 * count), view_u8(out, count)
        for i in range(done, count):
            y[i] = np.uint8((w0 * np.int64(x[3 * i]) + w1 * np.int64(x[3 * i + 1]) + w2 * np.int64(x[3 * i + 2]) + half) >> _LUMA_BITS)
        return 0

    return grey


_RGB = (DALIImageType.RGB, DALIImageType.BGR)


def step_for(from_type: DALIImageType, to_type: DALIImageType) -> Compiled:
    """The fastest step that converts between two colour spaces."""
    if from_type == to_type:
        return copy_step
    if from_type in _RGB and to_type in _RGB:
        return swap_step
    if from_type == DALIImageType.GRAY and to_type in _RGB:
        return spread_step
    if from_type in _RGB and to_type == DALIImageType.GRAY:
        return grey_step(from_type == DALIImageType.BGR)
    return conversion_step(3 if from_type != DALIImageType.GRAY else 1, 3 if to_type != DALIImageType.GRAY else 1)


