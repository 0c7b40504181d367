"""Brings windows together that lie anywhere in device memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..launch import Kernel, Launch, row_grid

_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "gather")


def gather_launch(sources: np.ndarray, pitches: np.ndarray, rows: np.ndarray, row_bytes: np.ndarray, targets: np.ndarray) -> Launch:
    """Copy windows (int64[samples] each: where they begin, bytes from row to row, rows, bytes of a row) to where they belong."""
    grid = row_grid(int(rows.max(initial=0)), int(row_bytes.max(initial=0)) // 4, len(rows))
    return Launch(_KERNEL, (sources, pitches, rows, row_bytes, targets, len(rows)), grid)
