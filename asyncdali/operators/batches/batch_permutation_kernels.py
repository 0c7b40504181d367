"""Random permutations of a batch from one Philox stream."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import local_array, view_i32
from ...compiled.step import compiled, inlined
from ...sampling.random_streams_kernels import STREAM_FIELDS, below, open_stream

_U = np.uint64
_new_stream = local_array(np.uint64, STREAM_FIELDS)
_PAIRED = 65535
"""With more elements than this, two positions no longer fit into one draw."""


@inlined
def _exchange(values, a, b):
    kept = values[a]
    values[a], values[b] = values[b], kept


@inlined
def shuffle(stream, values, count):
    """std::shuffle as in the GNU C++ library: elements are exchanged in pairs; one draw gives two positions."""
    if count > _PAIRED:
        for i in range(1, count):
            _exchange(values, i, below(stream, i + 1))
        return
    first = 1
    if count % 2 == 0:
        _exchange(values, 1, below(stream, 2))
        first = 2
    for i in range(first, count - 1, 2):
        both = below(stream, (i + 1) * (i + 2))
        _exchange(values, i, both // (i + 2))
        _exchange(values, i + 1, both % (i + 2))


@compiled(8)
def draw_permutation(key, hi, lo, phase, count, repetitions, no_fixed_points, address):
    """Write a permutation of `count` indices to int32[count] at `address`."""
    stream, out = _new_stream(), view_i32(address, count)
    open_stream(stream, _U(key), _U(hi), _U(lo), _U(phase))
    for i in range(count):
        out[i] = i
    if count < 2:
        return 0
    if repetitions != 0:
        for i in range(count):
            if no_fixed_points != 0:
                x = below(stream, count - 1)
                out[i] = x + (1 if x >= i else 0)
            else:
                out[i] = below(stream, count)
    elif no_fixed_points != 0:
        for i in range(count - 1):
            _exchange(out, i, i + 1 + below(stream, count - 1 - i))
    else:
        shuffle(stream, out, count)
    return 0
