"""Records of samples, addressed as planes by filters."""

from __future__ import annotations

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import compiled
from .planes_tables import AXES, PLANES

_at, _AXES = PLANES.at, len(AXES)


@compiled(6, brief=True)
def fill_planes(shapes, count, ndim, first, number, records):
    """PLANES of `count` samples of `shapes` (int64[count, ndim]) with `number` data axes from axis `first` on."""
    for k in range(count):
        shape, record = shapes + 8 * ndim * k, records + _at.size * k
        planes, channels = 1, 1
        for axis in range(first):
            planes *= load_i64(shape + 8 * axis)
        for axis in range(first + number, ndim):
            channels *= load_i64(shape + 8 * axis)
        for axis in range(_AXES):
            there = axis - (_AXES - number)
            store_i64(record + _at.in_depth + 8 * axis, load_i64(shape + 8 * (first + there)) if there >= 0 else 1)
        store_i64(record + _at.planes, planes)
        store_i64(record + _at.channels, channels)
    return 0
