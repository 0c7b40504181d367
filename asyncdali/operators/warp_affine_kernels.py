"""Compiled step of ``warp_affine`` for planes.

As that of ``rotate``, but what lies outside is filled last: a rotation takes steps of at most one pixel, so that the wide stores of the
fast loop are followed by a pixel at the edge, which is written again; any transform may leave the input at once.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..compiled.intrinsics import load_f32, load_i64, smaller, view_f64
from ..compiled.step import Compiled, step_variant
from .convert_kernels import converter, view
from .rotate_kernels import _MARGIN, RECORD_LENGTH, _inline, _make_edge, _make_inside, _span


@cache
def image_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Step for planes (depth 1 or frames); context table and records of ``rotate_kernels``."""
    inside, edge = _make_inside(in_dtype, out_dtype), _make_edge(in_dtype, out_dtype)
    view_out = view(out_dtype)
    convert = converter("float32", out_dtype)
    in_size, out_size = np.dtype(in_dtype).itemsize, np.dtype(out_dtype).itemsize

    @_inline
    def plane(source, out, map_, height, width, channels, out_height, out_width, fill, clamp, linear):
        shift = 0.5 if linear else 0.0
        reach = 1.0 if linear else 0.0
        columns = width - reach - (1 if linear and channels == 3 else 0)
        dx, dy = map_[0], map_[4]
        nothing = convert(fill)
        for y in range(out_height):
            px = map_[0] * 0.5 + map_[1] * (y + 0.5) + map_[3] - shift
            py = map_[4] * 0.5 + map_[5] * (y + 0.5) + map_[7] - shift
            to = out + y * out_width * channels * out_size
            near, far = 0, out_width
            if not clamp:
                near, far = _span(px, dx, -reach - _MARGIN, width + _MARGIN, near, far)
                near, far = _span(py, dy, -reach - _MARGIN, height + _MARGIN, near, far)
            # The last column is never taken by the fast loop: it may store one channel too many.
            begin, end = _span(px, dx, _MARGIN, columns - _MARGIN, near, smaller(far, out_width - 1))
            begin, end = _span(py, dy, _MARGIN, height - reach - _MARGIN, begin, end)
            fx, fy, gx, gy = np.float32(px), np.float32(py), np.float32(dx), np.float32(dy)
            if begin < end:
                inside(source, width, channels, fx, gx, fy, gy, begin, end, linear, to)
            else:
                begin = end = far
            for i in range(near, begin):
                at = to + i * channels * out_size
                edge(source, fx + gx * np.float32(i), fy + gy * np.float32(i), height, width, channels, fill, clamp, linear, at)
            for i in range(end, far):
                at = to + i * channels * out_size
                edge(source, fx + gx * np.float32(i), fy + gy * np.float32(i), height, width, channels, fill, clamp, linear, at)
            row = view_out(to, out_width * channels)
            for i in range(near * channels):
                row[i] = nothing
            for i in range(far * channels, out_width * channels):
                row[i] = nothing

    @step_variant("warp", in_dtype, out_dtype)
    def warp_image(context, sample, thread):
        record = load_i64(context + 16) + 8 * RECORD_LENGTH * sample
        source = load_i64(load_i64(context) + 8 * sample)
        out = load_i64(load_i64(context + 8) + 8 * sample)
        frames = load_i64(record) * load_i64(record + 8)
        height, width, channels = load_i64(record + 16), load_i64(record + 24), load_i64(record + 32)
        out_height, out_width = load_i64(record + 48), load_i64(record + 56)
        fill, clamp, linear = load_f32(load_i64(context + 32)), load_i64(context + 40), load_i64(context + 48)
        if height * width == 0:
            clamp = 0
        for frame in range(frames):
            row = load_i64(record + 64) + frame * load_i64(record + 72)
            map_ = view_f64(load_i64(context + 24) + 96 * row, 12)
            plane(source, out, map_, height, width, channels, out_height, out_width, fill, clamp, linear)
            source += height * width * channels * in_size
            out += out_height * out_width * channels * out_size
        return 0

    return warp_image
