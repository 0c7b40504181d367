"""Separable filters on a GPU: images tile by tile in one launch; volumes and wide windows axis by axis through device memory.

Images of up to four channels with windows of up to 31 elements have a kernel of their own (``small_window_kernels.cu``). If all windows of
a batch have one size, the size is a constant of that kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of
from .plane_tables import AXES, PLANES
from .separable_tables import SEPARABLE_LINE, SEPARABLE_TILE, WINDOWS
from .windows import Windows

_SOURCE, _SMALL = (Path(__file__).with_name(f"{name}_kernels.cu") for name in ("separable", "small_window"))
_TILE, _LANES = 32, 64  # As in separable_kernels.cu.
_ROWS = (64, 160)
"""Most rows of intermediate results per block: 16 or 40 KB of shared memory."""
_DEPTH, _HEIGHT, _WIDTH = range(len(AXES))
_COLUMNS, _RUN = 96, 8  # As in small_window_kernels.cu.
_LONGEST = (9, 17, 31)
"""Bounds of windows whose sizes differ; larger windows have another kernel."""
_SHARED = 48 << 10
"""Bytes of shared memory that a block may declare."""


def separable_launches(
    source: Batch, output: Batch, records: np.ndarray, windows: Windows, factors: np.ndarray
) -> list[Launch]:
    """The launches for a batch. The arguments are those of ``separable_kernels.make_separable_step``."""
    count, terms = factors.shape
    if not count:
        return []
    weights, described = windows.weights, windows.described
    names = (("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype))))
    values: dict[str, Any] = {
        "inputs": source.addresses, "outputs": output.addresses, "records": records, "windows": described, "factors": factors,
        "terms": terms, "weights": weights, "samples": count,
    }  # fmt: skip
    needed = _TILE + int(described[:, WINDOWS.word.height_taps].max()) - 1
    rows = next((rows for rows in _ROWS if needed <= rows), 0)
    word = PLANES.word
    if (records[:, word.in_depth] == 1).all():
        small = _small_windows(records, described, storage_dtype(source.dtype).itemsize)
        if small is not None:
            sizes = dict(small)
            across = -(-records[:, word.in_width] // (_COLUMNS // sizes["CHANNELS"]))
            tiles = records[:, word.planes] * across * -(-records[:, word.in_height] // sizes["DOWN"])
            kernel = Kernel(_SMALL, "small_windows", (*names, *small, ("SINGLE", int(terms == 1))))
            return [Launch(kernel, SEPARABLE_TILE.entries(**values), grid_of(int(tiles.max()), count, 1))]
    if rows and (records[:, word.in_depth] == 1).all():
        across = -(-records[:, word.in_width] * records[:, word.channels] // _LANES)
        tiles = records[:, word.planes] * across * -(-records[:, word.in_height] // _TILE)
        kernel = Kernel(_SOURCE, "tile", (*names, ("ROWS", rows)))
        return [Launch(kernel, SEPARABLE_TILE.entries(**values), grid_of(int(tiles.max()), count, 1))]
    return _line_launches(Kernel(_SOURCE, "line", (*names, ("ROWS", _ROWS[0]))), values, records, terms)


def _small_windows(records: np.ndarray, described: np.ndarray, itemsize: int) -> tuple[tuple[str, int], ...] | None:
    """Macros of the kernel for small windows, or None if the batch needs another kernel."""
    channels = records[:, PLANES.word.channels]
    taps = described[:, [WINDOWS.word.width_taps, WINDOWS.word.height_taps]]
    longest = next((size for size in _LONGEST if taps.max() <= size), 0)
    if not longest or not 1 <= channels[0] <= 4 or (channels != channels[0]).any():
        return None
    # A batch of one sample has one size, too. Other sizes in the next batches would each be compiled.
    fixed = len(records) > 1 and bool((taps == taps[0]).all())
    taps_x, taps_y = (int(size) for size in taps[0]) if fixed else (0, 0)
    margin_x, margin_y = (taps_x or longest) - 1, (taps_y or longest) - 1
    for down in (64, 32, 16):
        row = (_COLUMNS + margin_x * int(channels[0])) * (itemsize if itemsize < 4 else 4)
        if (down + margin_y) * 4 * ((row + 6) // 4 + 1 + _COLUMNS + 2) <= _SHARED:
            return ("CHANNELS", int(channels[0])), ("TAPS_X", taps_x), ("TAPS_Y", taps_y), ("LONGEST", longest), ("DOWN", down)
    return None


def _line_launches(kernel: Kernel, values: dict[str, Any], records: np.ndarray, terms: int) -> list[Launch]:
    elements = records.prod(axis=1)
    before = np.ascontiguousarray(elements.cumsum() - elements, np.int64)
    total = 4 * int(elements.sum())
    axes = [_WIDTH, _HEIGHT, *([_DEPTH] if (records[:, PLANES.word.in_depth] > 1).any() else [])]
    kept = [Scratch(total) for _ in axes[1:]]
    sums: Entry = Scratch(total) if terms > 1 else 0
    grid = grid_of(int(elements.max()), len(records))
    launches = []
    for term in range(terms):
        for k, axis in enumerate(axes):
            through = {"source": kept[k - 1] if k else 0, "target": kept[k] if k < len(kept) else 0, "sums": sums, "before": before}
            launches.append(Launch(kernel, SEPARABLE_LINE.entries(**values, **through, axis=axis, term=term), grid))
    return launches
