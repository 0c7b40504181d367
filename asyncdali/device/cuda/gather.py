"""Gathers windows from any places in device memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..launch import Kernel, Launch, row_grid
from .gather_tables import GATHER, GATHER_WINDOW

_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "gather")


def gather_launch(windows: np.ndarray, largest: tuple[int, int]) -> Launch:
    """Copy GATHER_WINDOW[windows] to their places. `largest`: the largest number of rows, and the largest number of bytes of a row."""
    grid = row_grid(largest[0], largest[1] // 4, len(windows))
    return Launch(_KERNEL, GATHER.entries(windows=windows, samples=len(windows)), grid)


def dense_windows(sources: np.ndarray, targets: np.ndarray, rows: np.ndarray, row_bytes: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """The arguments of :func:`gather_launch` for windows without gaps. The arguments are int64[windows]."""
    windows = np.empty((len(rows), GATHER_WINDOW.words), np.int64)
    for k, values in enumerate(GATHER_WINDOW.entries(source=sources, pitch=row_bytes, rows=rows, row_bytes=row_bytes, target=targets)):
        windows[:, k] = values
    return windows, (int(rows.max()), int(row_bytes.max()))
