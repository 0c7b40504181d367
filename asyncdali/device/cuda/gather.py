"""Gathers windows from any places in device memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..launch import Kernel, Launch, row_grid
from .gather_tables import GATHER

_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "gather")


def gather_launch(
    sources: np.ndarray, pitches: np.ndarray, rows: np.ndarray, row_bytes: np.ndarray, targets: np.ndarray, largest: tuple[int, int]
) -> Launch:
    """Copy windows to their places. Each window, int64[samples]: its start, bytes from row to row, number of rows, bytes of a row.

    `largest`: the largest number of rows, and the largest number of bytes of a row."""
    grid = row_grid(largest[0], largest[1] // 4, len(rows))
    context = GATHER.entries(sources=sources, pitches=pitches, rows=rows, row_bytes=row_bytes, targets=targets, samples=len(rows))
    return Launch(_KERNEL, context, grid)
