"""Starts of windows, drawn for a whole batch."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled
from .random_distributions_kernels import new_stream, up_to
from .random_streams_kernels import open_stream

_U = np.uint64
_SAMPLE_STRIDE = _U(65537)


@compiled(10)
def draw_starts(key, hi, lo, phase, samples, axes, lows, highs, fixed, starts):
    """Starts int64[samples, axes], uniform in [lows, highs]; where `fixed` nothing is drawn and the start is the low one."""
    stream = new_stream()
    sample_hi = _U(hi)
    for i in range(samples):
        open_stream(stream, _U(key), sample_hi, _U(lo), _U(phase))
        for k in range(8 * axes * i, 8 * axes * (i + 1), 8):
            low = load_i64(lows + k)
            store_i64(starts + k, low if load_i64(fixed + k) != 0 else low + up_to(stream, load_i64(highs + k) - low))
        sample_hi += _SAMPLE_STRIDE
    return 0
