"""Random streams of samples, opened at a position in a table."""

from __future__ import annotations

import numpy as np

from ..compiled.intrinsics import load_i64
from ..compiled.step import inlined
from .random_streams_kernels import open_stream
from .stream_tables import STREAM

_U = np.uint64
_SAMPLE_STRIDE = _U(65537)

at = STREAM.at


@inlined
def open_sample(stream, position, sample):
    """Open the stream of a sample; `position` is the address of the words of POSITION."""
    hi = _U(load_i64(position + at.position_hi)) + _SAMPLE_STRIDE * _U(sample)
    key, lo, phase = load_i64(position + at.position_key), load_i64(position + at.position_lo), load_i64(position + at.position_phase)
    open_stream(stream, _U(key), hi, _U(lo), _U(phase))
