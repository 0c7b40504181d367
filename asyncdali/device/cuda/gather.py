"""Gathers windows and samples from any places in device memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...compiled.tables import Handle
from ..launch import LINE, LINES_AT_ONCE, Kernel, Launch, grid_of, row_grid
from .gather_tables import COPIES, GATHER

_KERNEL = Kernel(Path(__file__).with_suffix(".cu"), "gather")


def gather_launch(windows: np.ndarray, largest: tuple[int, int]) -> Launch:
    """Copy GATHER_WINDOW[windows] to their places. `largest`: the largest number of rows, and the largest number of bytes of a row."""
    grid = row_grid(largest[0], largest[1] // 4, len(windows))
    return Launch(_KERNEL, GATHER.entries(windows=windows, samples=len(windows)), grid)


def copy_launch(sources: np.ndarray | Handle, targets: np.ndarray, sizes: np.ndarray) -> Launch:
    """Copy samples without gaps. The arguments are contiguous int64[samples], addresses and bytes; or handles of addresses."""
    entries = COPIES.entries(sources=sources, targets=targets, sizes=sizes, samples=len(sizes))
    lines = -(-int(sizes.max(initial=0)) // (LINE * LINES_AT_ONCE))
    return Launch(_KERNEL._replace(entry="copy_samples"), entries, grid_of(lines, len(sizes)))
