"""Choices of operators that an iteration keeps for its provenance: windows and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MOST_DRAWN = 1 << 12
"""Draws of more bytes are not kept. They are computed again when they are asked for."""


class Drawn(NamedTuple):
    """The outputs of an operator that draws, [samples, ...]; `first` and `rows` as in :class:`ChosenWindows`."""

    outputs: Sequence[np.ndarray]
    first: int
    rows: np.ndarray | None

    def rows_of(self, samples: range) -> Sequence[int]:
        """The rows of some samples of the iteration, -1 for a sample that is not in the branch."""
        return _rows(samples, self.first, self.rows)


class ChosenWindows(NamedTuple):
    """The windows that an operator chose: the first pixels and the extents (height, width), integers [samples, 2].

    `first`: number of the first sample that was computed. `rows`: in a branch, the row of each sample, -1 for samples that are not in it.
    """

    anchors: np.ndarray
    sizes: np.ndarray
    first: int = 0
    rows: np.ndarray | None = None

    def of(self, samples: range) -> list[dict[str, list[int]] | None]:
        """The windows of some samples of the iteration, as ``{"anchor": [y, x], "shape": [height, width]}``. None: not in the branch."""
        anchors, sizes = self.anchors.tolist(), self.sizes.tolist()
        return [None if row < 0 else {"anchor": anchors[row], "shape": sizes[row]} for row in _rows(samples, self.first, self.rows)]


def _rows(samples: range, first: int, rows: np.ndarray | None) -> Sequence[int]:
    places = range(samples.start - first, samples.stop - first)
    found: Sequence[int] = places if rows is None else rows[places.start : places.stop].tolist()
    return found
