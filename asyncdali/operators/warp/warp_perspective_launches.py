"""Perspective transforms: the table of a batch for the compiled step, and the launches on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of, row_grid
from ...types import DALIDataType
from .quads import in_quads
from .warp_perspective_tables import PERSPECTIVE, PERSPECTIVE_RECORD

_SOURCE = Path(__file__).with_name("warp_perspective_kernels.cu")
BORDERS = ("reflect_101", "reflect", "wrap", "replicate", "constant")
"""In the order of borders.cuh."""


class Sampling(NamedTuple):
    """How pixels are read from the input.

    border          a name of BORDERS
    interpolation   0 nearest, 1 linear, 2 cubic
    corner          whether a pixel's position is its corner, not its middle
    inverted        whether transforms map the input to the output
    """

    border: str
    interpolation: int
    corner: bool
    inverted: bool


def perspective_launches(
    source: Batch, output: Batch, maps: np.ndarray | Batch, records: np.ndarray, fills: np.ndarray, sampling: Sampling
) -> list[Launch]:
    """The launches for a batch with PERSPECTIVE_RECORDs.

    `maps` are float64[frames of all samples, 3, 3] from output to input, or the second input, whose transforms only the device knows.
    `fills` is float32[samples, 4].
    """
    count, word = len(records), PERSPECTIVE_RECORD.word
    if not count:
        return []
    macros = (("IN", element_type(storage_dtype(source.dtype))), ("INTERPOLATION", sampling.interpolation))
    frames = records[:, word.frames]
    late = isinstance(maps, Batch)
    transforms = maps.addresses if isinstance(maps, Batch) else np.zeros(count, np.int64)
    ready: Entry = Scratch(8 * 9 * int(frames.sum())) if isinstance(maps, Batch) else np.ascontiguousarray(maps, np.float64)
    entries = PERSPECTIVE.entries(
        inputs=source.addresses, outputs=output.addresses, transforms=transforms, maps=ready, records=records, fills=fills,
        border=BORDERS.index(sampling.border), corner=sampling.corner, inverted=sampling.inverted, samples=count,
    )  # fmt: skip
    rows, columns = int((frames * records[:, word.planes] * records[:, word.rows]).max()), int(records[:, word.columns].max())
    images = (records[:, place] for place in (word.height, word.width, word.channels))
    quads = source.dtype == DALIDataType.UINT8 and sampling.interpolation < 2 and in_quads(*images)
    entry = "warp_perspective_quads" if quads else "warp_perspective"
    launches = [Launch(Kernel(_SOURCE, entry, macros), entries, row_grid(rows, columns, count))]
    if late:
        launches.insert(0, Launch(Kernel(_SOURCE, "prepare_maps", macros), entries, grid_of(int(frames.max()), count)))
    return launches


def perspective_table(
    source: Batch, output: Batch, maps: np.ndarray, records: np.ndarray, fills: np.ndarray, border: str
) -> tuple[np.ndarray, list[object]]:
    """The table of the compiled step for a batch, and the arrays to keep alive; see :func:`perspective_launches`."""
    return PERSPECTIVE.make(
        inputs=source.addresses, outputs=output.addresses, transforms=0, maps=np.ascontiguousarray(maps, np.float64), records=records,
        fills=fills, border=BORDERS.index(border), corner=0, inverted=0, samples=len(records),
    )  # fmt: skip


def inverses(maps: np.ndarray) -> np.ndarray:
    """The inverses of float64[n, 3, 3]; 0 if there is no inverse, as in OpenCV."""
    rows = np.cross(np.roll(maps, -1, axis=1), np.roll(maps, -2, axis=1))  # the cofactors
    determinants = (maps[:, 0] * rows[:, 0]).sum(axis=1)
    with np.errstate(divide="ignore"):
        factors = np.where(determinants == 0, 0.0, 1 / determinants)
    return rows.transpose(0, 2, 1) * factors[:, None, None]
