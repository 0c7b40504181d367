"""How samples lie in memory for a filter: planes of data axes, with or without channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.memory import address_of
from .plane_tables import PLANES

MOST_AXES = 3


class DataAxes(NamedTuple):
    """`number` data axes begin at axis `first`; behind them there may be channels, before them frames and channels."""

    first: int
    number: int


def data_axes(batch: Batch) -> DataAxes:
    """The data axes of a layout: all but frames at its begin and channels at its begin or end; without a layout all axes.

    Raises ValueError for channels between data axes, for none and for more than three data axes.
    """
    layout = batch.layout or "?" * batch.ndim
    first = 0
    while first < len(layout) and layout[first] in "FC":
        first += 1
    count = len(layout) - first - (layout.endswith("C") and first < len(layout))
    inside = layout[first : first + count]
    if count <= 0:
        raise ValueError(f"No spatial axes found in the layout: {layout}")
    if "C" in inside or "F" in inside:
        raise ValueError(f"Only channel-first or channel-last layouts are supported, frames come first; got: {layout}")
    if count > MOST_AXES:
        raise ValueError(f"Too many dimensions, found: {count} data axes, maximum supported is: {MOST_AXES}")
    return DataAxes(first, count)


def plane_records(shapes: np.ndarray, axes: DataAxes) -> np.ndarray:
    """PLANES of samples. Axes that are not there have an extent of 1."""
    from .plane_kernels import fill_planes

    shapes = np.ascontiguousarray(shapes, np.int64)
    records = np.empty((len(shapes), PLANES.words), np.int64)
    fill_planes(address_of(shapes), len(shapes), shapes.shape[1], axes.first, axes.number, address_of(records))
    return records
