"""Planning of the colour operators that turn and scale colours: matrices from their arguments, in float32."""

from __future__ import annotations

import numpy as np

from ...compiled import kinds
from ...compiled.intrinsics import c_function, float_of_bits, load_f32, load_i64, store_f32
from ...compiled.step import compiled
from .color_tables import MATRIX_FACTORS, TWISTS

_twists, word = TWISTS.at, MATRIX_FACTORS.word  # the record counts float32 numbers
_FLOAT = 4  # bytes of float32
_cosf = c_function("cosf", kinds.float32, kinds.float32)
_sinf = c_function("sinf", kinds.float32, kinds.float32)
_TO_RADIANS = np.pi / 180


@compiled(1, brief=True)
def plan_twists(table):
    """Compute matrices and offsets of a batch (see TWISTS). Products and sums are rounded in DALI's order.

    Cosine and sine are the C library's, as in DALI.
    """
    half = float_of_bits(load_i64(table + _twists.half))
    to_yiq, from_yiq, row = load_i64(table + _twists.to_yiq), load_i64(table + _twists.from_yiq), load_i64(table + _twists.rows)
    hues, saturations = load_i64(table + _twists.hues), load_i64(table + _twists.saturations)
    values, brightnesses = load_i64(table + _twists.values), load_i64(table + _twists.brightnesses)
    contrasts = load_i64(table + _twists.contrasts)
    for i in range(load_i64(table + _twists.samples)):
        angle = np.float32(np.float64(load_f32(hues + 4 * i)) * _TO_RADIANS)
        cosine, sine = _cosf(angle), _sinf(angle)
        saturation, value = load_f32(saturations + 4 * i), load_f32(values + 4 * i)
        brightness, contrast = load_f32(brightnesses + 4 * i), load_f32(contrasts + 4 * i)
        scale = brightness * contrast
        for k in range(3):
            luma = load_f32(from_yiq + 12 * k) * scale
            first, second = load_f32(from_yiq + 12 * k + 4) * scale, load_f32(from_yiq + 12 * k + 8) * scale
            turned, other = first * cosine - second * sine, first * sine + second * cosine
            luma, turned, other = luma * value, turned * saturation * value, other * saturation * value
            for j in range(3):
                column = 4 * j
                total = luma * load_f32(to_yiq + column) + turned * load_f32(to_yiq + 12 + column) + other * load_f32(to_yiq + 24 + column)
                store_f32(row + _FLOAT * (word.m_0 + 3 * k + j), total)
        store_f32(row + _FLOAT * word.offset, (half - half * contrast) * brightness)
        row += _FLOAT * word.words
    return 0
