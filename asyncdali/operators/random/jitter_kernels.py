"""Compiled step of ``jitter``: every pixel is copied from a random neighbour."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.intrinsics import copy_bytes, larger, load_i64, smaller, view_i64, view_of
from ...compiled.step import Compiled, inlined, step_variant
from ...sampling.random_streams_kernels import word_pair
from .jitter import JITTER, JITTER_RECORD

at, word = JITTER.at, JITTER_RECORD.word
_SOURCE = Path(__file__).with_suffix(".cu")
_U = np.uint64
_SAMPLE_STRIDE, _ELEMENT_STRIDE = _U(65537), _U(257)


@inlined
def _displacement(draw, degree):
    """Turn a word of the stream into one of `degree` displacements, from -(degree // 2) on."""
    if degree & (degree - 1) == 0:
        return np.int64(_U(draw) & _U(degree - 1)) - (degree >> 1)
    return np.int64((_U(draw) * _U(degree)) >> _U(32)) - (degree >> 1)


@cache
def jitter_step(dtype: str) -> Compiled:
    """The step for the NumPy name of a dtype."""
    view, itemsize = view_of(np.dtype(dtype)), np.dtype(dtype).itemsize

    @step_variant(dtype)
    def jitter(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, width, channels = r[word.height], r[word.width], r[word.channels]
        count = height * width * channels
        source_address = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out_address = load_i64(load_i64(context + at.outputs) + 8 * sample)
        if r[word.mask] == 0:
            copy_bytes(out_address, source_address, count * itemsize)
            return 0
        source, out = view(source_address, count), view(out_address, count)
        degree, together = load_i64(context + at.degree), channels if load_i64(context + at.per_pixel) else 1
        key, lo = _U(load_i64(context + at.position_key)), _U(load_i64(context + at.position_lo))
        hi = _U(load_i64(context + at.position_hi)) + _SAMPLE_STRIDE * _U(sample)
        phase = _U(load_i64(context + at.position_phase))
        for y in range(height):
            for x in range(width):
                for first in range(0, channels, together):
                    e = (y * width + x) * channels + first
                    across, down = word_pair(key, hi, lo, phase + _ELEMENT_STRIDE * _U(e))
                    from_x = smaller(larger(x + _displacement(across, degree), 0), width - 1)
                    from_y = smaller(larger(y + _displacement(down, degree), 0), height - 1)
                    for c in range(together):
                        out[e + c] = source[(from_y * width + from_x) * channels + first + c]
        return 0

    return jitter


