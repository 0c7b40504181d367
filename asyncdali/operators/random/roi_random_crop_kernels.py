"""Random starts of windows for a whole batch."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled
from ...sampling.random_distributions_kernels import new_stream, up_to
from ...sampling.random_streams_kernels import open_stream

_U = np.uint64
_SAMPLE_STRIDE = _U(65537)


NEGATIVE, OUTSIDE, TOO_LARGE = 1, 2, 3
"""Reasons to refuse a sample: negative extents, a region that leaves the input, a window larger than the input."""
CAUSES = 4


@compiled(16)
def draw_starts(
    key, hi, lo, phase, samples, axes, windows, window_step, starts, start_step, ends, end_step, sized, inputs, input_step, out
):  # fmt: skip
    """Draw starts of windows to int64[samples, axes] at `out`: uniform among the windows that contain the region, or that lie in it.

    `windows`, `starts`, `ends` and `inputs` are int64[axes] per sample, each with a stride in bytes. `ends` are extents of regions if
    `sized`. `inputs` may be 0 (unknown extents of the input). If a window equals its region, nothing is drawn.
    Returns 0, or CAUSES * sample + the cause of the first sample that is refused.
    """
    stream = new_stream()
    sample_hi = _U(hi)
    for i in range(samples):
        open_stream(stream, _U(key), sample_hi, _U(lo), _U(phase))
        for cause in (NEGATIVE, OUTSIDE, TOO_LARGE):
            for k in range(0, 8 * axes, 8):
                window, start = load_i64(windows + k), load_i64(starts + k)
                end = load_i64(ends + k) + (start if sized != 0 else 0)
                if cause == NEGATIVE:
                    wrong = window < 0 or end < start
                elif inputs == 0:
                    wrong = False
                else:
                    extent = load_i64(inputs + k)
                    wrong = window > extent if cause == TOO_LARGE else (start < 0 or end > extent)
                if wrong:
                    return CAUSES * i + cause
        for k in range(0, 8 * axes, 8):
            window, start = load_i64(windows + k), load_i64(starts + k)
            extent = load_i64(ends + k) - (0 if sized != 0 else start)
            low, high = min(start, start + extent - window), max(start, start + extent - window)
            if extent != window:
                if inputs != 0:
                    low, high = max(low, 0), min(high, load_i64(inputs + k) - window)
                low += up_to(stream, high - low)
            store_i64(out + k, low)
        sample_hi += _SAMPLE_STRIDE
        windows, starts, ends, out = windows + window_step, starts + start_step, ends + end_step, out + 8 * axes
        inputs += input_step
    return 0
