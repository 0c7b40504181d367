"""Memory layout of samples for a filter: planes of data axes, with or without channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ..accepts import matching
from .planes_tables import PLANES

if TYPE_CHECKING:
    from ...compiled.step import Compiled

MOST_AXES = 3


class DataAxes(NamedTuple):
    """`number` data axes start at axis `first`. Channels may follow; frames and channels may precede."""

    first: int
    number: int


def data_axes(batch: Batch) -> DataAxes:
    """The data axes of an input of :data:`DATA_LAYOUTS`."""
    return _of_layout(batch.layout or "?" * batch.ndim)


def _of_layout(layout: str) -> DataAxes:
    """All axes except leading frames, and channels at the start or end."""
    first = 0
    while first < len(layout) and layout[first] in "FC":
        first += 1
    return DataAxes(first, len(layout) - first - (layout.endswith("C") and first < len(layout)))


def _has_data_axes(layout: str) -> bool:
    axes = _of_layout(layout)
    inside = layout[axes.first : axes.first + axes.number]
    return 0 < axes.number <= MOST_AXES and "C" not in inside and "F" not in inside


DATA_LAYOUTS = matching(
    f"frames first, channels first or last, and 1 to {MOST_AXES} other axes", _has_data_axes,
    lambda rank: "" if 0 < rank <= MOST_AXES else None,
)  # fmt: skip
"""Layouts of filters. Without a layout all axes are data axes."""


def plane_kernel() -> Compiled:
    """The compiled function of :func:`plane_records`."""
    from .planes_kernels import fill_planes

    return fill_planes


def plane_records(shapes: np.ndarray, axes: DataAxes) -> np.ndarray:
    """PLANES of samples. Missing axes have an extent of 1."""
    shapes = np.ascontiguousarray(shapes, np.int64)
    records = np.empty((len(shapes), PLANES.words), np.int64)
    plane_kernel()(address_of(shapes), len(shapes), shapes.shape[1], axes.first, axes.number, address_of(records))
    return records
